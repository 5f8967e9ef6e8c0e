"""`python -m benchmarks [section …]`: measures, prints the table, and keeps it as benchmarks/latest.json.

Naming sections measures only these and keeps nothing.
"""

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import structlog
import uvloop

from benchmarks import behind, depth, enqueue, latency, settle
from benchmarks.figures import LATEST, Figure, keep, table
from pillarbox.database.embedded import EmbeddedServer

_ON_THE_SERVER: dict[str, Callable[[str], Coroutine[Any, Any, list[Figure]]]] = {
    "settle": settle.figures,
    "behind": behind.figures,
    "enqueue": enqueue.figures,
    "latency": latency.figures,
    "depth": depth.figures,
}
_PALETTE = "palette"


def main(chosen: list[str]) -> None:
    """Run the sections one after the other."""
    sections = [*_ON_THE_SERVER, _PALETTE]
    if unknown := set(chosen) - set(sections):
        sys.exit(f"there is no section {', '.join(sorted(unknown))}; there are {', '.join(sections)}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(f"{os.cpu_count()} CPUs, load average before: {os.getloadavg()[0]:.2f}")
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory(prefix="pillarbox-bench-") as folder,
        EmbeddedServer.start(Path(folder)) as server,
    ):
        for section, measure in _ON_THE_SERVER.items():
            if not chosen or section in chosen:
                figures += _timed(section, lambda measure=measure: uvloop.run(measure(server.url)))
    if not chosen or _PALETTE in chosen:
        figures += _timed(_PALETTE, _palette)
    print(f"\n{table(figures)}")
    if not chosen:
        keep(figures)
        print(f"\nkept in {LATEST.relative_to(Path.cwd()) if LATEST.is_relative_to(Path.cwd()) else LATEST}")


def _timed(section: str, measure: Callable[[], list[Figure]]) -> list[Figure]:
    print(f"{section} … ", end="", flush=True)
    begun = time.perf_counter()
    figures = measure()
    print(f"{time.perf_counter() - begun:.0f} s")
    return figures


def _palette() -> list[Figure]:
    from benchmarks.palette.run import figures

    return [Figure(**figure) for figure in figures()]


if __name__ == "__main__":
    main(sys.argv[1:])
