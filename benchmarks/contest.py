"""Contestants take turns at the same rows, so that what else the machine does falls on all alike."""

import statistics
from collections.abc import Sequence
from typing import Protocol


class Contestant(Protocol):
    """A queue with a no-op handler."""

    name: str
    rounds: int

    async def prepare(self, rows: int) -> None:
        """Enqueue rows, vacuum, analyse: whatever is not measured."""
        ...

    async def work(self, rows: int, batch: int) -> float:
        """Work all of them off; answers rows per second. Raises where any is left."""
        ...


async def compete(contestants: Sequence[Contestant], rows: int, batch: int) -> dict[str, float]:
    """Each contestant's median rows per second, after one short run that warms it up."""
    paces: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for contestant in contestants:
        await contestant.prepare(rows // 10)
        await contestant.work(rows // 10, batch)
    for turn in range(max(contestant.rounds for contestant in contestants)):
        for contestant in contestants:
            if turn < contestant.rounds:
                await contestant.prepare(rows)
                paces[contestant.name].append(await contestant.work(rows, batch))
    return {name: statistics.median(measured) for name, measured in paces.items()}
