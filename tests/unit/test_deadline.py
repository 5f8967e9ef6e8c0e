"""The deadline: exact for work that waits, free for work that does not, and transparent to both."""

import asyncio

import pytest

from pillarbox.queue.deadline import ends_by


def soon() -> float:
    return asyncio.get_running_loop().time() + 0.05


async def test_work_that_does_not_wait_answers_even_past_its_deadline() -> None:
    async def work() -> str:
        return "done"

    assert await ends_by(0.0, work()) == "done"


async def test_work_that_waits_gets_what_it_waited_for() -> None:
    answer = asyncio.get_running_loop().create_future()

    async def work() -> list[str]:
        await asyncio.sleep(0)
        return [await answer, await asyncio.to_thread(lambda: "thread")]

    asyncio.get_running_loop().call_later(0.01, answer.set_result, "future")
    async with asyncio.timeout(5):
        assert await ends_by(asyncio.get_running_loop().time() + 5, work()) == ["future", "thread"]


async def test_work_that_waits_too_long_is_broken_off_where_it_waits() -> None:
    broken_off = False

    async def work() -> None:
        nonlocal broken_off
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            broken_off = True
            raise

    with pytest.raises(TimeoutError):
        await ends_by(soon(), work())
    assert broken_off


async def test_time_spent_before_the_first_wait_counts() -> None:
    async def work() -> None:
        while asyncio.get_running_loop().time() < deadline:
            pass
        await asyncio.Event().wait()

    deadline = soon()
    with pytest.raises(TimeoutError):
        await ends_by(deadline, work())


@pytest.mark.parametrize("waits", [False, True])
async def test_an_error_of_the_work_is_the_works_own(waits: bool) -> None:
    async def work() -> None:
        if waits:
            await asyncio.sleep(0)
        raise LookupError("nobody")

    with pytest.raises(LookupError, match="nobody"):
        await ends_by(soon(), work())


async def test_a_cancellation_from_outside_reaches_the_work_and_is_no_timeout() -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned = True

    task = asyncio.ensure_future(ends_by(asyncio.get_running_loop().time() + 60, work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned


async def test_deadlines_nest_and_the_inner_one_is_the_works_to_catch() -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "inner"
        return "never"

    assert await ends_by(asyncio.get_running_loop().time() + 60, work()) == "inner"
