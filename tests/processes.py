"""Real Pillarbox processes for tests: started with their own settings, watched, killed."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


def environment(**settings: object) -> dict[str, str]:
    """This process's environment, without settings of Pillarbox's except the given ones."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PILLARBOX_") and name != "DATABASE_URL"
    }
    return kept | {name: str(value) for name, value in settings.items()}


class PillarboxProcess:
    """One running `pillarbox …`; its lines on both outputs are kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.output: list[str] = []
        self.errors: list[str] = []
        self._said = asyncio.Event()
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            asyncio.ensure_future(self._read(process.stdout, self.output)),
            asyncio.ensure_future(self._read(process.stderr, self.errors)),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    async def said(self, text: str, seconds: float = 30) -> None:
        """Wait until a line with this text has been printed."""
        try:
            async with asyncio.timeout(seconds):
                while not any(text in line for line in self.output + self.errors):
                    if self._process.returncode is not None:
                        raise AssertionError(f"ended without saying {text!r}: {self.errors[-5:]}")
                    self._said.clear()
                    await self._said.wait()
        except TimeoutError:
            raise AssertionError(
                f"never said {text!r}: {self.output[-5:]}\n" + "\n".join(self.errors[-120:])
            ) from None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self, number: signal.Signals | None = None, seconds: float = 30) -> int:
        """Send a signal, if any, and wait for the end; answers the exit code."""
        if number is not None:
            self._process.send_signal(number)
        code = await asyncio.wait_for(self._process.wait(), seconds)
        await asyncio.gather(*self._readers)
        return code

    def report(self) -> dict[str, Any]:
        """The JSON a `drain --json` printed."""
        return json.loads(self.output[-1])

    async def _read(self, stream: asyncio.StreamReader, lines: list[str]) -> None:
        async for line in stream:
            lines.append(line.decode(errors="replace").rstrip())
            self._said.set()
        self._said.set()


@asynccontextmanager
async def pillarbox(
    *arguments: str, settings: Mapping[str, object], cwd: Path | None = None
) -> AsyncIterator[PillarboxProcess]:
    """Run `pillarbox` with these arguments and settings; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pillarbox",
        *arguments,
        env=environment(**settings),
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        running = PillarboxProcess(process)
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.gather(*running._readers)
