"""The claim: no row twice, nobody waits, never more than the limit, under any plan."""

import asyncio
import json
import re
from collections import Counter

import pytest

from pillarbox.database.engine import Database
from pillarbox.database.lane import Lane
from pillarbox.notifications.outbox import CLAIM
from tests.outbox import STATEMENTS, OutboxBench


async def test_eight_claimers_at_once_never_take_the_same_row(
    outbox: OutboxBench, database: Database
) -> None:
    ids = await outbox.fill(2000)

    async def claim_until_empty() -> list[object]:
        taken = []
        async with database.lane() as lane:
            while rows := await STATEMENTS.claim(lane, 25):
                taken += [row.id for row in rows]
        return taken

    taken = Counter(
        id_ for part in await asyncio.gather(*(claim_until_empty() for _ in range(8))) for id_ in part
    )
    assert taken == Counter(ids)


async def test_a_claimer_never_waits_for_rows_another_session_holds(
    outbox: OutboxBench, database: Database
) -> None:
    ids = await outbox.fill(10)
    other = await database.connect_direct()
    async with other.transaction():
        await other.execute(
            "SELECT FROM notifications.notification_deliveries WHERE id = ANY ($1) FOR UPDATE", ids[:6]
        )
        async with database.lane() as lane:
            await lane.fetch("SET lock_timeout = '50ms'")
            taken = await STATEMENTS.claim(lane, 25)
    await other.close()
    assert {row.id for row in taken} == set(ids[6:])


async def test_the_oldest_due_rows_come_first_and_none_before_its_time(outbox: OutboxBench) -> None:
    ids = await outbox.fill(6)
    for age, id_ in enumerate(ids[:4]):
        await outbox.lane.fetch(
            "UPDATE notifications.notification_deliveries SET next_attempt_at = now() - make_interval(secs => $2) WHERE id = $1",
            id_,
            float(age * 10),
        )
    await outbox.lane.fetch(
        "UPDATE notifications.notification_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE id = ANY ($1)",
        ids[4:],
    )
    assert {row.id for row in await outbox.claim(2)} == {ids[3], ids[2]}
    assert {row.id for row in await outbox.claim()} == {ids[1], ids[0]}
    assert await outbox.claim() == []


async def test_a_claim_returns_the_fence_and_the_notification_with_it(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    (row,) = await outbox.claim()
    assert (row.id, row.attempts, row.max_attempts, row.budget) == (id_, 1, 5, 5)
    assert (row.channel, row.address, row.title, row.body) == ("email", "ada@example.org", "title 0", "body")
    stored = await outbox.row(id_)
    assert (stored["status"], stored["attempts"]) == ("processing", 1)


_FILLINGS = ("empty", "one", "full", "unanalysed", "mostly history")


async def _prepare(outbox: OutboxBench, filling: str) -> int:
    """Fill the table; answers how many rows are due."""
    lane = outbox.lane
    if filling == "unanalysed":
        await lane.fetch("ALTER TABLE notifications.notification_deliveries SET (autovacuum_enabled = off)")
    count = {"empty": 0, "one": 1}.get(filling, 3000)
    if count:
        await outbox.fill(count)
    if filling == "mostly history":
        await lane.fetch(
            "UPDATE notifications.notification_deliveries SET status = 'sent', sent_at = now() "
            "WHERE id IN (SELECT id FROM notifications.notification_deliveries LIMIT 2900)"
        )
        count = 100
    if filling != "unanalysed":
        await lane.fetch("ANALYZE notifications.notification_deliveries")
        await lane.fetch("ANALYZE notifications.notifications")
    return count


@pytest.mark.parametrize("filling", _FILLINGS)
@pytest.mark.parametrize("join", ["auto", "nestloop only", "no nestloop", "no index"])
@pytest.mark.parametrize("cache", ["force_custom_plan", "force_generic_plan"])
async def test_a_claim_never_takes_more_than_its_limit_under_any_plan(
    outbox: OutboxBench, filling: str, join: str, cache: str
) -> None:
    due = await _prepare(outbox, filling)
    await outbox.lane.fetch(f"SET plan_cache_mode = {cache}")
    off = {
        "auto": [],
        "nestloop only": ["hashjoin", "mergejoin", "material", "memoize"],
        "no nestloop": ["nestloop"],
        "no index": ["indexscan", "indexonlyscan", "bitmapscan"],
    }[join]
    for switch in off:
        await outbox.lane.fetch(f"SET enable_{switch} = off")
    assert len(await outbox.claim(25)) == min(25, due)
    assert (await outbox.counts()).get("processing", 0) == min(25, due)


@pytest.mark.parametrize("filling", _FILLINGS)
async def test_the_limiting_part_of_the_claim_runs_once_in_every_plan(
    outbox: OutboxBench, filling: str
) -> None:
    await _prepare(outbox, filling)
    answer = await outbox.lane.fetch(
        "EXPLAIN (ANALYZE, FORMAT JSON) " + CLAIM.replace("$1", "25").replace("$", "")
    )
    plan = json.loads(answer[0][0])[0]["Plan"]

    def nodes(node: dict) -> list[dict]:
        return [node, *(found for child in node.get("Plans", []) for found in nodes(child))]

    locking = [node for node in nodes(plan) if node["Node Type"] == "LockRows"]
    assert len(locking) == 1
    assert locking[0]["Actual Loops"] <= 1


async def test_the_claim_reads_the_partial_index_even_under_a_generic_plan(
    lane: Lane, outbox: OutboxBench
) -> None:
    await _prepare(outbox, "mostly history")
    await lane.fetch("SET plan_cache_mode = force_generic_plan")
    await lane.fetch(f"PREPARE claim AS {CLAIM}")
    plan = "\n".join(record[0] for record in await lane.fetch("EXPLAIN EXECUTE claim(25)"))
    assert "notification_deliveries_due_idx" in plan
    assert "Seq Scan on notification_deliveries" not in plan


def test_the_claim_is_one_statement_with_a_literal_lock_clause_and_quoted_aliases() -> None:
    assert ";" not in CLAIM
    assert "FOR UPDATE SKIP LOCKED" in CLAIM
    assert re.findall(r"(?:FROM|UPDATE|JOIN) (?!SKIP)([a-z_]+\b)(?!\.)", CLAIM) == ["c"]
    returned = CLAIM.partition("RETURNING")[2]
    assert all(re.search(r' AS "\w+"$', part.strip()) for part in returned.split(","))
