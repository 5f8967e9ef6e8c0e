"""A served Pillarbox for tests over HTTP and in the browser: one real process, restartable on the same ports."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.processes import environment


def free_port() -> int:
    """A port nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Site:
    """`pillarbox serve` on free ports, with a data directory of its own."""

    def __init__(
        self, database_url: str | None, *, executable: str = sys.executable, **settings: object
    ) -> None:
        self._executable = executable
        self._folder = tempfile.TemporaryDirectory(
            # A server whose supervisor was killed may still be writing its last page.
            prefix="pillarbox-site-",
            ignore_cleanup_errors=True,
        )
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database_url = database_url
        self._settings = {
            "PILLARBOX_DATA_DIR": str(Path(self._folder.name) / "data"),
            "PILLARBOX_PORT": self.port,
            "PILLARBOX_INBOX_SMTP_PORT": free_port(),
            **({"DATABASE_URL": database_url} if database_url else {}),
            **settings,
        }
        self._process: subprocess.Popen[str] | None = None
        self.lines: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        """What a further process of the same installation runs with."""
        return environment(**self._settings)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it answers."""
        self._process = subprocess.Popen(
            [self._executable, "-m", "pillarbox", "serve"],
            env=self.environment,
            cwd=self._folder.name,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        ready = threading.Event()

        def read() -> None:
            assert self._process is not None
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.lines.append(line.rstrip())
                if "Pillarbox is at" in line:
                    ready.set()
            ready.set()

        threading.Thread(target=read, daemon=True).start()
        ready.wait(30)
        if self._process.poll() is not None or not ready.is_set():
            raise AssertionError("the site did not start:\n" + "\n".join(self.lines[-20:]))

    def stop(self, number: signal.Signals = signal.SIGINT, seconds: float = 10) -> int:
        """Stop it and answer the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(seconds)

    def close(self) -> None:
        """Stop what still runs, its database included, and remove the folder."""
        if self._process is not None and self._process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._folder.cleanup()
