"""The HTTP face of a served process: what works, what is refused, and that refusals change nothing."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest
from yarl import URL

from pillarbox.notifications.outbox import CLAIM
from tests.processes import pillarbox
from tests.silence import SilentProxy
from tests.site import Site


@pytest.fixture(scope="module")
def site(module_database_url: str) -> Iterator[Site]:
    site = Site(module_database_url)
    site.start()
    yield site
    site.close()


@pytest.fixture
async def http(site: Site) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=site.url, timeout=aiohttp.ClientTimeout(20)) as session:
        yield session


async def depth(http: aiohttp.ClientSession) -> dict[str, Any]:
    async with http.get("/api/outbox/depth") as answer:
        return await answer.json()


async def events(http: aiohttp.ClientSession) -> AsyncIterator[tuple[str, Any]]:
    """The named events of the stream, decoded."""
    async with http.get("/api/outbox/stream", timeout=aiohttp.ClientTimeout(None)) as answer:
        assert answer.content_type == "text/event-stream"
        assert answer.headers["x-accel-buffering"] == "no"
        name = ""
        async for raw in answer.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


async def settled(http: aiohttp.ClientSession, total: int) -> dict[str, Any]:
    """Wait, on the stream, until this many deliveries have been settled since the database was made."""
    async with asyncio.timeout(20):
        async for name, value in events(http):
            if name == "depth" and value["settledTotal"] >= total:
                return value
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("channel", ["email", "webhook"])
async def test_an_enqueued_notification_arrives_in_the_inbox(
    http: aiohttp.ClientSession, channel: str
) -> None:
    before = await depth(http)
    async with http.post(
        "/api/outbox/notifications",
        json={"channel": channel, "title": f"Grüße über {channel} ✓", "body": "Zeile 1\nZeile 2"},
    ) as answer:
        assert answer.status == 201
        (delivery_id,) = (await answer.json())["deliveryIds"]
    await settled(http, before["settledTotal"] + 1)
    async with http.get("/api/inbox/messages") as answer:
        message = next(m for m in (await answer.json())["items"] if m["deliveryId"] == delivery_id)
    assert (message["subject"], message["channel"], message["copies"]) == (
        f"Grüße über {channel} ✓",
        channel,
        1,
    )
    assert message["body"] == "Zeile 1\nZeile 2"


@pytest.mark.parametrize("channel", ["email", "webhook"])
async def test_poison_fails_for_good_and_flaky_waits_for_its_second_attempt(
    http: aiohttp.ClientSession, channel: str
) -> None:
    ids = {}
    before = await depth(http)
    for rehearsal in ("poison", "flaky"):
        async with http.post(
            "/api/outbox/notifications", json={"channel": channel, "rehearsal": rehearsal}
        ) as answer:
            (ids[rehearsal],) = (await answer.json())["deliveryIds"]
    async with asyncio.timeout(20):
        async for name, value in events(http):
            if (
                name == "depth"
                and value["failed"] > before["failed"]
                and value["retrying"] > before["retrying"]
            ):
                break
    async with http.get("/api/outbox/deliveries?limit=100") as answer:
        rows = {row["id"]: row for row in (await answer.json())["items"]}
    poison, flaky = rows[ids["poison"]], rows[ids["flaky"]]
    assert (poison["status"], poison["attemptsUsed"]) == ("failed", 1)
    assert (flaky["status"], flaky["retrying"], flaky["attemptsUsed"]) == ("pending", True, 1)
    assert 20 < flaky["nextAttemptInSeconds"] <= 30
    assert poison["errorCode"].endswith("5.1.1" if channel == "email" else "410")


async def test_a_thousand_at_once_are_all_sent(http: aiohttp.ClientSession) -> None:
    before = await depth(http)
    async with http.post("/api/outbox/notifications", json={"channel": "email", "count": 1000}) as answer:
        assert (await answer.json())["enqueued"] == 1000
    after = await settled(http, before["settledTotal"] + 1000)
    assert after["sent"] - before["sent"] == 1000


BAD_BODIES = [
    pytest.param({"channel": "fax"}, "channel", id="unknown channel"),
    pytest.param({"channel": "email", "rehearsal": "explode"}, "rehearsal", id="unknown rehearsal"),
    pytest.param({}, None, id="nothing"),
    pytest.param({"channel": "email", "count": 0}, "count", id="count of zero"),
    pytest.param({"channel": "email", "count": -5}, "count", id="negative count"),
    pytest.param({"channel": "email", "count": 1001}, "count", id="huge count"),
    pytest.param({"channel": "email", "count": 10**30}, "count", id="count beyond any integer"),
    pytest.param({"channel": "email", "count": 1.5}, "count", id="broken count"),
    pytest.param({"channel": "email", "title": ""}, "title", id="empty title"),
    pytest.param({"channel": "email", "title": "x" * 201}, "title", id="long title"),
    pytest.param({"channel": "email", "body": "x" * 10_001}, "body", id="long body"),
    pytest.param({"channel": "email", "sender": "me"}, None, id="unknown field"),
    pytest.param({"channel": "email", "title": "a\0b"}, None, id="NUL in the title"),
    pytest.param({"channel": "email", "address": "nobody"}, "address", id="no mail address"),
    pytest.param({"channel": "email", "address": "a@b@c"}, "address", id="two at signs"),
    pytest.param(
        {"channel": "email", "address": "a@b.example\r\nBcc: all@b.example"}, "address", id="header injection"
    ),
    pytest.param({"channel": "webhook", "address": "nowhere"}, "address", id="no web address"),
    pytest.param({"channel": "webhook", "address": "file:///etc/passwd"}, "address", id="not http"),
    pytest.param({"channel": "webhook", "address": "http://[::1"}, "address", id="broken host"),
    pytest.param({"channel": "webhook", "address": "http://h:99999/"}, "address", id="port beyond range"),
    pytest.param({"channel": "webhook", "address": "http://"}, "address", id="no host"),
]


@pytest.mark.parametrize(("body", "path"), BAD_BODIES)
async def test_a_bad_enqueue_is_refused_clearly_and_changes_nothing(
    http: aiohttp.ClientSession, body: dict[str, Any], path: str | None
) -> None:
    before = await depth(http)
    async with http.post("/api/outbox/notifications", json=body) as answer:
        problem = await answer.json(content_type="application/problem+json")
        assert answer.status == 400
    assert (problem["status"], problem["title"]) == (400, "Bad Request")
    assert problem["detail"]
    if path is not None:
        assert path in [entry["path"] for entry in problem["errors"]]
    assert (await depth(http))["enqueuedTotal"] == before["enqueuedTotal"]


@pytest.mark.parametrize(
    ("data", "kind", "status"),
    [
        pytest.param(b'{"channel":', "application/json", 400, id="malformed JSON"),
        pytest.param(b"\xff\xfe", "application/json", 400, id="not UTF-8"),
        pytest.param(b"", "application/json", 400, id="empty"),
        pytest.param(b"[]", "application/json", 400, id="a list"),
        pytest.param(b"[" * 30_000, "application/json", 400, id="nested deeply"),
        pytest.param(b'{"channel":"email"}', "text/plain", 415, id="text/plain"),
        pytest.param(b'{"channel":"email"}', "application/x-www-form-urlencoded", 415, id="a form"),
        pytest.param(b'{"channel":"email"}', "", 415, id="no content type"),
        pytest.param(
            b'{"channel":"email","body":"' + b"x" * 70_000 + b'"}', "application/json", 413, id="oversized"
        ),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_clearly(
    http: aiohttp.ClientSession, data: bytes, kind: str, status: int
) -> None:
    before = await depth(http)
    async with http.post(
        "/api/outbox/notifications",
        data=data,
        headers={"content-type": kind} if kind else {},
        skip_auto_headers=["content-type"],
    ) as answer:
        problem = await answer.json(content_type="application/problem+json")
        assert (answer.status, problem["status"]) == (status, status)
        if status == 413:
            assert "65536 bytes" in problem["detail"]
    assert (await depth(http))["enqueuedTotal"] == before["enqueuedTotal"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/nothing", 404),
        ("GET", "/nothing.png", 404),
        ("GET", "/assets/%00.js", 404),
        ("GET", "/assets/" + "x" * 300, 404),
        ("GET", "/" + "x" * 300, 404),
        ("GET", "/assets/../../../etc/passwd", 404),
        ("GET", "/assets/%2e%2e/%2e%2e/settings.py", 404),
        ("PUT", "/api/outbox/notifications", 405),
        ("GET", "/api/outbox/deliveries?limit=9", 400),
        ("GET", "/api/outbox/deliveries?limit=101", 400),
        ("GET", "/api/outbox/deliveries?limit=many", 400),
    ],
)
async def test_every_error_is_a_problem(
    http: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    async with http.request(method, URL(path, encoded=True)) as answer:
        problem = await answer.json(content_type="application/problem+json")
        assert (answer.status, problem["status"]) == (status, status)


FOREIGN = [
    pytest.param({"host": "pillarbox.example"}, id="reached by another name"),
    pytest.param({"x-forwarded-for": "203.0.113.7"}, id="through a proxy"),
    pytest.param({"forwarded": "for=203.0.113.7"}, id="through a proxy that says so the new way"),
    pytest.param({"origin": "http://elsewhere.example"}, id="from another site's page"),
    pytest.param({"origin": "http://["}, id="from a malformed origin"),
    pytest.param({"host": "[::1"}, id="to a malformed host"),
    pytest.param({"sec-fetch-site": "cross-site"}, id="from another site, as the browser says"),
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/api/inbox/messages", None),
        ("POST", "/api/showcase/incident", {"kind": "kill"}),
        ("POST", "/api/showcase/incident/step", {"action": "kill"}),
        ("DELETE", "/api/showcase/incident", None),
        ("POST", "/api/outbox/notifications", {"channel": "email", "address": "victim@elsewhere.example"}),
    ],
)
async def test_what_acts_on_the_installation_answers_only_on_this_machine(
    http: aiohttp.ClientSession, headers: dict[str, str], method: str, path: str, body: object
) -> None:
    before = await depth(http)
    async with http.request(method, path, json=body, headers=headers) as answer:
        assert answer.status == 403
    assert (await depth(http))["enqueuedTotal"] == before["enqueuedTotal"]


async def test_an_address_of_ones_own_is_taken_on_this_machine(http: aiohttp.ClientSession) -> None:
    before = await depth(http)
    async with http.post(
        "/api/outbox/notifications", json={"channel": "email", "address": "grace@navy.example"}
    ) as answer:
        assert answer.status == 201
    await settled(http, before["settledTotal"] + 1)
    async with http.get("/api/inbox/messages") as answer:
        assert (await answer.json())["items"][0]["recipient"] == "grace@navy.example"


async def test_a_webhook_with_a_wrong_signature_is_not_taken(http: aiohttp.ClientSession) -> None:
    headers = {"webhook-id": "1", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}
    async with http.post("/api/inbox/webhook", data=b"{}", headers=headers) as answer:
        assert answer.status == 401


async def test_a_killed_worker_and_a_frozen_one_are_played_to_their_end(http: aiohttp.ClientSession) -> None:
    endings = {"kill": ["kill", "lapse"], "freeze": ["freeze", "lapse", "thaw"]}
    for kind, actions in endings.items():
        async with http.post("/api/showcase/incident", json={"kind": kind}) as answer:
            incident = await answer.json()
            assert (answer.status, incident["state"], incident["attempts"]) == (201, "sending", 1)
        async with http.post("/api/showcase/incident", json={"kind": kind}) as answer:
            assert answer.status == 409, "one at a time"
        async with http.post("/api/showcase/incident/step", json={"action": "thaw"}) as answer:
            assert answer.status == 409, "not its turn"
        for action in actions:
            async with http.post("/api/showcase/incident/step", json={"action": action}) as answer:
                assert answer.status == 200, await answer.text()
                incident = await answer.json()
        assert incident["state"] == {"kill": "delivered", "freeze": "discarded"}[kind]
        assert (incident["attempts"], incident["next"]) == (2, None)
        async with http.get("/api/inbox/messages?limit=100") as answer:
            messages = (await answer.json())["items"]
        copies = [m["copies"] for m in messages if m["deliveryId"] == incident["deliveryId"]]
        assert copies == [{"kill": 1, "freeze": 2}[kind]]
    async with http.delete("/api/showcase/incident") as answer:
        assert answer.status == 204


async def test_an_incident_that_is_ended_leaves_no_process_and_no_pause(
    http: aiohttp.ClientSession, site: Site
) -> None:
    async with http.post("/api/showcase/incident", json={"kind": "freeze"}) as answer:
        pid = (await answer.json())["workerPid"]
    async with http.post("/api/showcase/incident/step", json={"action": "freeze"}) as answer:
        assert answer.status == 200
    async with http.delete("/api/showcase/incident") as answer:
        assert answer.status == 204
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    before = await depth(http)
    async with http.post("/api/outbox/notifications", json={"channel": "email"}) as answer:
        assert answer.status == 201
    await settled(http, before["settledTotal"] + 1)


async def test_an_incident_takes_its_own_row_though_others_are_due(http: aiohttp.ClientSession) -> None:
    async with http.post("/api/outbox/notifications", json={"channel": "email", "count": 1000}) as answer:
        assert answer.status == 201
    async with http.post("/api/showcase/incident", json={"kind": "kill"}) as answer:
        assert (await answer.json())["state"] == "sending"
    async with http.delete("/api/showcase/incident") as answer:
        assert answer.status == 204


async def test_the_claim_shown_is_the_claim_that_runs(http: aiohttp.ClientSession) -> None:
    async with http.get("/api/outbox/mechanism") as answer:
        shown = await answer.json()
    assert shown["claim"] == CLAIM
    policy = shown["policy"]
    assert (policy["batchSize"], policy["maxAttempts"], policy["leaseSeconds"]) == (25, 5, 300)
    assert policy["backoffSeconds"] == [30, 120, 480, 1920]
    assert policy["worstCaseSeconds"] < policy["leaseSeconds"]


async def test_the_security_headers_stand_on_every_answer(http: aiohttp.ClientSession) -> None:
    for path in ("/showcases/workers", "/api/platform", "/nothing"):
        async with http.get(path, headers={"accept": "text/html"}) as answer:
            policy = answer.headers["content-security-policy"]
            assert "worker-src 'self' blob:" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"]


async def test_assets_are_kept_for_a_year_and_the_page_never(http: aiohttp.ClientSession) -> None:
    async with http.get("/showcases/workers", headers={"accept": "text/html"}) as answer:
        assert answer.headers["cache-control"] == "no-store"
        page = await answer.text()
    asset = re.search(r"/assets/[\w.-]+\.js", page)
    assert asset, "the built page loads a hashed script"
    async with http.get(asset[0]) as answer:
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.content_type in {"text/javascript", "application/javascript"}


@pytest.mark.parametrize(
    ("path", "cookie", "language", "theme"),
    [
        ("/showcases/workers", "", "en", ""),
        ("/de/showcases/workers", "theme=dark", "de", "dark"),
        ("/inbox", "theme=light", "en", "light"),
        ("/de/inbox", 'theme="><script>', "de", ""),
    ],
)
async def test_the_page_comes_in_the_language_of_its_address_and_the_chosen_theme(
    http: aiohttp.ClientSession, path: str, cookie: str, language: str, theme: str
) -> None:
    async with http.get(path, headers={"accept": "text/html", "cookie": cookie}) as answer:
        assert answer.status == 200
        assert f'<html lang="{language}" data-theme="{theme}">' in await answer.text()


async def test_the_first_address_leads_to_the_page(http: aiohttp.ClientSession) -> None:
    for path, page in (
        ("/", "/showcases/workers"),
        ("/de", "/de/showcases/workers"),
        ("/de/", "/de/showcases/workers"),
    ):
        async with http.get(path, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["location"]) == (307, page)


@pytest.mark.parametrize("path", ["/health/live", "/showcases/workers", "/api/platform"])
async def test_head_answers_as_get_without_a_body(http: aiohttp.ClientSession, path: str) -> None:
    async with http.head(path, headers={"accept": "text/html"}) as answer:
        assert answer.status == 200
        assert await answer.read() == b""
    async with http.head("/nothing") as answer:
        assert answer.status == 404


async def test_an_unknown_page_is_a_404_with_the_page_around_it(http: aiohttp.ClientSession) -> None:
    async with http.get("/no/such/page", headers={"accept": "text/html"}) as answer:
        assert answer.status == 404
        assert "<html" in await answer.text()


async def test_five_hundred_streams_are_served_and_end_at_once_on_ctrl_c(module_database_url: str) -> None:
    site = Site(module_database_url)
    site.start()
    try:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            base_url=site.url, connector=connector, timeout=aiohttp.ClientTimeout(None)
        ) as http:
            ended = 0

            async def watch(open_: asyncio.Event) -> None:
                nonlocal ended
                async with http.get("/api/outbox/stream") as answer:
                    async for line in answer.content:
                        if line.startswith(b"event: depth"):
                            open_.set()
                ended += 1

            opened = [asyncio.Event() for _ in range(500)]
            async with asyncio.TaskGroup() as group:
                for event in opened:
                    group.create_task(watch(event))
                async with asyncio.timeout(30):
                    await asyncio.gather(*(event.wait() for event in opened))
                async with http.get("/api/outbox/depth") as answer:
                    assert answer.status == 200, "streams hold no connection of the pool"
                code = await asyncio.to_thread(site.stop, signal.SIGINT, 5)
            assert ended == 500
            assert code == 0
    finally:
        site.close()


async def test_a_port_in_use_is_one_clear_line(site: Site) -> None:
    settings = {"DATABASE_URL": site.database_url, "PILLARBOX_PORT": site.port}
    async with pillarbox("serve", settings=settings) as second:
        assert await second.end() == 1
    assert len(second.errors) == 1
    assert f"port {site.port}" in second.errors[0]
    assert "PILLARBOX_PORT" in second.errors[0]


@pytest.mark.parametrize("settings", [{"PILLARBOX_DELIVERY_CLAIM_LEASE": 60}, {"PILLARBOX_PORTT": 1}])
async def test_settings_that_cannot_work_refuse_to_start_in_one_line(settings: dict[str, object]) -> None:
    async with pillarbox("serve", settings=settings) as process:
        assert await process.end() == 1
    assert len(process.errors) == 1
    assert next(iter(settings)) in process.errors[0]


async def test_a_serverless_process_says_it_is_dormant_and_a_push_drains(database_url: str) -> None:
    site = Site(database_url, PILLARBOX_PLATFORM="serverless")
    site.start()
    try:
        async with aiohttp.ClientSession(base_url=site.url) as http:
            async with http.get("/api/platform") as answer:
                platform = await answer.json()
            assert (platform["platform"], platform["dormant"], platform["drain"]["state"]) == (
                "serverless",
                True,
                "off",
            )
            async with http.post("/api/showcase/incident", json={"kind": "kill"}) as answer:
                assert answer.status == 201
            for action in ("kill", "lapse"):
                async with http.post("/api/showcase/incident/step", json={"action": action}) as answer:
                    incident = await answer.json()
            assert incident["state"] == "delivered"
            before = await depth(http)
            async with http.post("/api/outbox/notifications", json={"channel": "email"}) as answer:
                assert answer.status == 201
            assert (await depth(http))["pending"] >= before["pending"] + 1
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "pillarbox",
                "drain",
                "--json",
                env=site.environment,
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await process.communicate()
            assert json.loads(output)["sent"] >= 1
    finally:
        site.close()


async def test_a_silent_database_is_a_503_within_its_deadline_and_nothing_else_hangs(
    database_url: str,
) -> None:
    async with SilentProxy(database_url) as proxy:
        site = Site(proxy.url, PILLARBOX_DATABASE_DEADLINE_SECONDS=1)
        await asyncio.to_thread(site.start)
        try:
            async with aiohttp.ClientSession(base_url=site.url, timeout=aiohttp.ClientTimeout(15)) as http:
                before = await depth(http)
                proxy.fall_silent()
                for method, path, body in (
                    ("GET", "/api/outbox/depth", None),
                    ("GET", "/api/outbox/deliveries", None),
                    ("GET", "/health/ready", None),
                    ("POST", "/api/outbox/notifications", {"channel": "email"}),
                ):
                    async with http.request(method, path, json=body) as answer:
                        problem = await answer.json(content_type="application/problem+json")
                        assert (answer.status, problem["status"]) == (503, 503), path
                async with http.get("/health/live") as answer:
                    assert answer.status == 200
                proxy.speak()
                async with http.post("/api/outbox/notifications", json={"channel": "email"}) as answer:
                    assert answer.status == 201
                after = await settled(http, before["settledTotal"] + 1)
                assert after["sent"] == before["sent"] + 1
                proxy.fall_silent()
                assert await asyncio.to_thread(site.stop, signal.SIGINT, 8) == 0
        finally:
            site.close()
