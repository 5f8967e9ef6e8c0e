"""What the tests of the embedded PostgreSQL do to it and ask of it."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from pillarbox.database.embedded import EmbeddedServer, EmbeddedServerError
from pillarbox.database.postgres_programs import PostgresPrograms

AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="needs root, to become other users and mount disks")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
ORDINARY_UID = 65534
GIGABYTE = 1024**3
SHARED_MEMORY = Path("/dev/shm")
# Open to every user, short, and quick where it can be: each test makes or copies a whole cluster.
ROOM = (
    SHARED_MEMORY
    if SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > GIGABYTE
    else Path("/tmp")
)

SUPERVISOR = """
import signal, sys
from pathlib import Path
from pillarbox.database.embedded import EmbeddedServer
server = EmbeddedServer.start(Path(sys.argv[1]))
print("RUNNING", server.pid, server.url, flush=True)
signal.pause()
"""


class Supervisor:
    """Another process that runs a server on a directory, as `pillarbox serve` does."""

    def __init__(self, data_dir: Path, prefix: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", SUPERVISOR, str(data_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.postmaster: psutil.Process | None = None

    def wait_until_running(self) -> tuple[psutil.Process, str]:
        assert self.process.stdout is not None
        seen: list[str] = []
        for line in self.process.stdout:
            seen.append(line)
            if line.startswith("RUNNING"):
                _, pid, url = line.split()
                self.postmaster = psutil.Process(int(pid))
                return self.postmaster, url
        raise AssertionError("".join(seen))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            self.process.kill()
        if self.postmaster is not None:
            # Or it would still write into a folder that is being removed.
            self.postmaster.wait(5)


async def connect(url: str) -> Any:
    return await asyncpg.connect(url)  # pyright: ignore[reportUnknownVariableType] -- it ships no types


def query(url: str, sql: str) -> object:
    async def run() -> object:
        connection: Any = await connect(url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(run())


def refusal(data_dir: Path) -> str:
    """The message of a start that must not succeed."""
    with pytest.raises(EmbeddedServerError) as refused:
        EmbeddedServer.start(data_dir).stop()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def in_child(action: Callable[[], object], uid: int | None = None) -> str:
    """Runs an action in a forked child, as another user if told; its result or its error as text.

    Forked, not spawned: an interpreter below /root cannot be started by anyone else.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            text = str(action())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@contextmanager
def serve_without_supervisor(data_dir: Path) -> Generator[subprocess.Popen[bytes]]:
    """A server that nothing will stop: what a lost supervisor leaves where the kernel does not end it."""
    cluster = data_dir / "postgres"
    owner = cluster.stat()
    programs = PostgresPrograms.locate(cluster)
    port = (data_dir / "postgres.port").read_text().strip()
    with subprocess.Popen(
        [programs.bin / "postgres", "-D", cluster, "-p", port, "-c", "unix_socket_directories="],
        cwd="/",
        stderr=subprocess.PIPE,
        user=owner.st_uid if AS_ROOT else None,
        group=owner.st_gid if AS_ROOT else None,
        extra_groups=[] if AS_ROOT else None,
    ) as process:
        assert process.stderr is not None
        assert any(b"ready to accept connections" in line for line in process.stderr)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGQUIT)


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE  # its new parent takes its time
    except psutil.NoSuchProcess:
        return True
