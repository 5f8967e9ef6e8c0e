"""Watches, recognises and stops the postmaster process of one data directory."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from pillarbox.database.postgres_account import works_in
from pillarbox.database.postgres_programs import PostgresPrograms
from pillarbox.database.server_messages import EmbeddedServerError

_READY_POLL_SECONDS = 0.01
_END_POLL_SECONDS = 0.01
_FAST_STOP_SECONDS = 10.0
_IMMEDIATE_STOP_SECONDS = 3.0


@dataclass(frozen=True)
class PidFile:
    """What the postmaster writes about itself: its pid on line 1, its port on line 4, its state on line 8."""

    pid: int
    port: int | None
    status: str

    @classmethod
    def parse(cls, text: str) -> "PidFile | None":
        lines = [line.strip() for line in text.splitlines()]
        if not lines or not lines[0].lstrip("-").isdecimal():
            return None
        port = int(lines[3]) if len(lines) > 3 and lines[3].isdecimal() else None
        # A single-user server writes its number negated.
        return cls(abs(int(lines[0])), port, lines[7] if len(lines) > 7 else "")

    @classmethod
    def read(cls, cluster: Path) -> "PidFile | None":
        try:
            return cls.parse((cluster / "postmaster.pid").read_text(errors="replace"))
        except FileNotFoundError:
            return None


def wait_until_ready(process: subprocess.Popen[bytes], cluster: Path, seconds: float) -> bool:
    """True once the server takes connections; False when it ended or the time is up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid_file = PidFile.read(cluster)
        if pid_file is not None and pid_file.pid == process.pid and pid_file.status == "ready":
            return True
        # PostgreSQL announces readiness in that file alone; this waits for an early end meanwhile.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_READY_POLL_SECONDS)
            return False
    return False


def stop_child(process: subprocess.Popen[bytes], programs: PostgresPrograms, cluster: Path) -> None:
    """Fast shutdown; if that hangs, immediate (the next start recovers); if that hangs, the kernel's."""
    if process.poll() is None:
        for seconds in _escalate(psutil.Process(process.pid), programs):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                break
    # A clean stop removes the file last of all.
    if (cluster / "postmaster.pid").exists():
        end_leftovers(cluster, programs)


def end_leftovers(cluster: Path, programs: PostgresPrograms) -> list[int]:
    """Ends every PostgreSQL process of this data directory whose supervisor is gone; returns their pids.

    Call it holding the directory's lock: whoever lives here then has no owner. A pid in postmaster.pid
    that a foreign program got meanwhile is left alone, and the stale file removed, since PostgreSQL
    would take that program for a server of its own.
    """
    pid_file = PidFile.read(cluster)
    ended: list[int] = []
    postmaster = _process_on(cluster, pid_file.pid, programs) if pid_file else None
    if postmaster is not None:
        ended.append(postmaster.pid)
        for seconds in _escalate(postmaster, programs):
            if _all_gone([postmaster], seconds):
                break
    # Backends outlive a killed postmaster for as long as their statement runs, and block the next start.
    backends = list(_processes_on(cluster, programs))
    ended += [backend.pid for backend in backends]
    for backend in backends:
        _signal(backend, "SIGQUIT", programs)
    if not _all_gone(backends, _IMMEDIATE_STOP_SECONDS):
        for backend in backends:
            with contextlib.suppress(psutil.NoSuchProcess):
                backend.kill()
        if not _all_gone(backends, _IMMEDIATE_STOP_SECONDS):
            # Never a second server beside one that lives, so the file that keeps others out stays too.
            raise EmbeddedServerError(
                f"PostgreSQL (process {backends[0].pid}) still runs on {cluster} and cannot be killed: "
                "see what its disk waits for, or restart the machine"
            )
    (cluster / "postmaster.pid").unlink(missing_ok=True)
    return ended


def _escalate(process: psutil.Process, programs: PostgresPrograms) -> Iterator[float]:
    """Sends the next harder signal each time it is asked; yields how long to wait for it."""
    _signal(process, "SIGINT", programs)
    yield _FAST_STOP_SECONDS
    _signal(process, "SIGQUIT", programs)
    yield _IMMEDIATE_STOP_SECONDS
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    yield _IMMEDIATE_STOP_SECONDS


def _signal(process: psutil.Process, name: str, programs: PostgresPrograms) -> None:
    if sys.platform == "win32":
        # PostgreSQL brings its own signals to Windows, and the sender of them.
        command = [str(programs.bin / "pg_ctl"), "kill", name.removeprefix("SIG"), str(process.pid)]
        subprocess.run(command, check=False, capture_output=True)  # noqa: S603
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.Signals[name])


def _process_on(cluster: Path, pid: int, programs: PostgresPrograms) -> psutil.Process | None:
    """The process, if it is a PostgreSQL on this data directory, which all of them make their cwd."""
    try:
        process = psutil.Process(pid)
        if process.name().removesuffix(".exe") != "postgres":
            return None
        return process if _works_in(process, cluster, programs) else None
    except (psutil.Error, OSError):
        return None


def _works_in(process: psutil.Process, cluster: Path, programs: PostgresPrograms) -> bool:
    try:
        # Compared by identity: the folder may be reached by another name, or have been moved.
        return Path(process.cwd()).samefile(cluster)
    except psutil.AccessDenied:
        return programs.account is not None and works_in(process.pid, cluster, programs.account)


def _processes_on(cluster: Path, programs: PostgresPrograms) -> Iterator[psutil.Process]:
    for pid in psutil.pids():
        if (process := _process_on(cluster, pid, programs)) is not None:
            yield process


def _all_gone(processes: list[psutil.Process], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(_is_alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        # Not children of ours: no portable event tells their end.
        time.sleep(_END_POLL_SECONDS)
    return True


def _is_alive(process: psutil.Process) -> bool:
    try:
        # One that ended but was not collected by its parent holds nothing any more.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
