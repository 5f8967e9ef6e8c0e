"""The limit: our own claim and settle, driven by pgbench with nothing in between."""

import asyncio
import re
import shutil
import tempfile
from pathlib import Path

from benchmarks.databases import Outbox
from benchmarks.drain import STATEMENTS
from pillarbox.notifications.outbox import CLAIM

_CLIENTS = 2
_SURPLUS = 1.25
"""Rows beyond those that are claimed: towards an empty queue claims come back short."""

_SCRIPT = """\
WITH claimed AS ({claim})
SELECT array_agg("id") AS ids, array_agg("attempts") AS attempts FROM claimed \\gset
{settle};
"""
_ARGUMENTS = {
    "$1": ":ids",
    "$2": ":attempts",
    "$3": "array_fill('done'::text, ARRAY[cardinality(:ids::uuid[])])",
    "$4": "'{}'",
    "$5": "'{}'",
    "$6": "'{}'",
    "$7": "array_fill('receipt'::text, ARRAY[cardinality(:ids::uuid[])])",
}


def find_pgbench() -> str | None:
    """pgbench on the path or where Debian keeps it; None where there is none."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), reverse=True)
    return shutil.which("pgbench") or next(map(str, places), None)


class PgbenchContestant:
    """Two clients, prepared statements, the rows of our own outbox."""

    name = "pgbench, the two statements"

    def __init__(self, program: str, outbox: Outbox, rounds: int) -> None:
        self.rounds = rounds
        self._program = program
        self._outbox = outbox

    async def prepare(self, rows: int) -> None:
        """Fill the outbox, with some to spare."""
        await self._outbox.fill(int(rows * _SURPLUS))

    async def work(self, rows: int, batch: int) -> float:
        """As many claims as make `rows`; pgbench's own pace, without its connecting."""
        settle = re.sub(r"\$\d", lambda match: _ARGUMENTS[match[0]], STATEMENTS.settle_sql)
        script = _SCRIPT.format(claim=CLAIM.replace("$1", str(batch)), settle=settle)
        turns = rows // batch // _CLIENTS
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            file.write(script)
            file.flush()
            process = await asyncio.create_subprocess_exec(
                self._program,
                *("-n", "-M", "prepared", "-c", str(_CLIENTS), "-j", str(_CLIENTS)),
                *("-t", str(turns), "-f", file.name, self._outbox.url),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await process.communicate()
        found = re.search(r"tps = ([\d.]+)", output.decode())
        if process.returncode or not found:
            raise RuntimeError(f"pgbench failed: {errors.decode().strip()}")
        seconds = turns * _CLIENTS / float(found[1])
        return await self._outbox.sent() / seconds
