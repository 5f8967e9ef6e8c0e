"""A deadline around a coroutine that costs nothing while the coroutine does not wait."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")


async def ends_by(deadline: float, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """What `work` returns; it is broken off at `deadline` on the loop's clock.

    A timer can only ever interrupt a coroutine that waits. So the first step is made by hand, and the
    timer, which costs more than many a handler, is set when there is something to wait for.

    Raises:
        TimeoutError: the deadline passed.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        return end.value
    async with asyncio.timeout_at(deadline):
        return await _Begun(work, waits_for)


class _Begun(Generic[ResultT]):
    """Goes on with a coroutine whose first step answered that it waits for something."""

    def __init__(self, work: Coroutine[Any, Any, ResultT], waits_for: object) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[object, Any, ResultT]:
        waits_for = self._waits_for
        while True:
            try:
                came = yield waits_for
            except BaseException as error:
                step, argument = self._work.throw, error
            else:
                step, argument = self._work.send, came
            try:
                waits_for = step(argument)
            except StopIteration as end:
                return end.value
