"""The PostgreSQL that Pillarbox brings along: started with it, stopped with it, one per data directory."""

import atexit
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import structlog

from pillarbox.database.cluster import (
    DATABASE,
    ROLE,
    change_password,
    check_cluster,
    create_cluster,
    remove_half_made,
    write_client_authentication,
)
from pillarbox.database.directory_lock import DirectoryInUseError, DirectoryLock
from pillarbox.database.postgres_programs import PostgresPrograms
from pillarbox.database.postmaster import end_leftovers, stop_child, wait_until_ready
from pillarbox.database.server_messages import (
    EmbeddedServerError,
    cause_of,
    explain,
    explain_os_error,
    one_line,
)

__all__ = ["EmbeddedServer", "EmbeddedServerError"]

_log = structlog.get_logger(__name__)

# Sized for a small application server. Given on the command line, so that every start has them.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # TCP only: a socket's path may be too long, and must be reachable by whoever the server runs as.
    "unix_socket_directories": "",
    "max_connections": "200",
    "max_prepared_transactions": "0",
    "shared_buffers": "128MB",
    "password_encryption": "scram-sha-256",
    "logging_collector": "off",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "lc_messages": "C",
    "cluster_name": "pillarbox",
}
# Outside what the systems hand out for outgoing connections: a remembered port is then rarely taken.
_PORTS = range(15432, 32768)
_PORT_ATTEMPTS = 5
# Recovery after a crash replays what was written since the last checkpoint; a slow disk takes its time.
_READY_SECONDS = 300.0
_LOG_LIMIT_BYTES = 4 * 1024 * 1024
_LOG_KEPT_BYTES = 256 * 1024


class EmbeddedServer:
    """A running server. `start` makes one; leaving the `with` block, `stop` or the process's end ends it."""

    def __init__(
        self,
        url: str,
        process: subprocess.Popen[bytes],
        programs: PostgresPrograms,
        cluster: Path,
        lock: DirectoryLock,
    ) -> None:
        self.url = url
        self.pid = process.pid
        self._process = process
        self._programs = programs
        self._cluster = cluster
        self._lock = lock
        self._owner = os.getpid()
        self._stopped = False
        atexit.register(self.stop)

    @classmethod
    def start(cls, data_dir: Path) -> "EmbeddedServer":
        """Starts the server of this directory, making both when new; returns when it takes connections.

        Blocks. Call it from the main thread: on Linux the server ends with the thread that started it.
        """
        if threading.current_thread() is not threading.main_thread():
            raise EmbeddedServerError(
                "The embedded PostgreSQL was started from a thread: start it from the main one"
            )
        try:
            data_dir = data_dir.expanduser().resolve()
            data_dir.mkdir(parents=True, exist_ok=True)
            lock = _lock(data_dir)
            try:
                return _start(data_dir, lock)
            except BaseException:
                lock.release()
                raise
        except OSError as error:
            raise EmbeddedServerError(explain_os_error(error, data_dir)) from error

    @staticmethod
    def running_url(data_dir: Path) -> str | None:
        """The address of the server another process runs on this directory; None when none does."""
        data_dir = data_dir.expanduser().resolve()
        if not data_dir.is_dir():
            return None
        try:
            DirectoryLock(data_dir / "pillarbox.lock").release()
        except DirectoryInUseError:
            password, port = (
                _read_text(data_dir / "postgres.password"),
                _read_text(data_dir / "postgres.port"),
            )
            return _url(password, int(port)) if password and port else None
        return None

    def stop(self) -> None:
        """Ends the server and lets go of the directory; the second call does nothing."""
        # A forked child inherits this object and its atexit, but not the server.
        if self._stopped or os.getpid() != self._owner:
            return
        self._stopped = True
        atexit.unregister(self.stop)
        try:
            stop_child(self._process, self._programs, self._cluster)
        finally:
            self._lock.release()
        _log.info("embedded_postgres.stopped", pid=self.pid)

    def is_running(self) -> bool:
        return not self._stopped and self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _url(password: str, port: int) -> str:
    return f"postgresql://{ROLE}:{quote(password, safe='')}@127.0.0.1:{port}/{DATABASE}"


def _lock(data_dir: Path) -> DirectoryLock:
    try:
        return DirectoryLock(data_dir / "pillarbox.lock")
    except DirectoryInUseError as held:
        who = f"Another Pillarbox (process {held.pid})" if held.pid else "Another Pillarbox"
        raise EmbeddedServerError(
            one_line(f"{who} is using {data_dir}: stop it first, or choose another data directory")
        ) from held


def _start(data_dir: Path, lock: DirectoryLock) -> EmbeddedServer:
    cluster = data_dir / "postgres"
    programs = PostgresPrograms.locate(cluster)
    remove_half_made(data_dir)
    password_file = data_dir / "postgres.password"
    if check_cluster(cluster, programs):
        programs.hand_over(cluster)
        if leftovers := end_leftovers(cluster, programs):
            _log.warning("embedded_postgres.leftovers_ended", pids=leftovers, data_dir=str(data_dir))
        password = _read_text(password_file)
        if password is None:
            # Lost, or we were killed before it was written: only who holds the folder can set another.
            password = secrets.token_urlsafe(24)
            change_password(cluster, programs, password)
            _write_secret(password_file, password)
    else:
        password = secrets.token_urlsafe(24)
        create_cluster(cluster, programs, password)
        _write_secret(password_file, password)
    write_client_authentication(cluster, programs)
    process, port = _serve(data_dir, cluster, programs)
    try:
        url = _url(password, port)
        _check_entrance(programs, cluster, data_dir / "postgres.log", port, password)
        _remember_port(data_dir / "postgres.port", port)
        server = EmbeddedServer(url, process, programs, cluster, lock)
    except BaseException:
        stop_child(process, programs, cluster)
        raise
    _log.info("embedded_postgres.started", pid=process.pid, port=port, data_dir=str(data_dir))
    return server


def _serve(data_dir: Path, cluster: Path, programs: PostgresPrograms) -> tuple[subprocess.Popen[bytes], int]:
    remembered = _read_text(data_dir / "postgres.port")
    wanted = int(remembered) if remembered and remembered.isdecimal() else None
    log_path = data_dir / "postgres.log"
    _shorten(log_path)
    for attempt in range(1, _PORT_ATTEMPTS + 1):
        port = wanted if wanted and _is_free(wanted) else _free_port()
        with log_path.open("ab") as log:
            log_path.chmod(0o600)  # a failing statement is quoted in it
            before = log.tell()
            settings = [f"-c{name}={value}" for name, value in (_SETTINGS | {"port": str(port)}).items()]
            process = programs.serve(settings, cluster, log)
        try:
            if wait_until_ready(process, cluster, _READY_SECONDS):
                return process, port
        except BaseException:
            stop_child(process, programs, cluster)
            raise
        timed_out = process.poll() is None
        stop_child(process, programs, cluster)
        output = _read_from(log_path, before)
        # Someone may take the port between our look and the server's.
        if cause_of(output) != "port_taken" or attempt == _PORT_ATTEMPTS:
            if timed_out:
                output += f"\nFATAL:  not ready within {_READY_SECONDS:.0f} s"
            raise EmbeddedServerError(explain(output, cluster, log_path))
        wanted = None
    raise AssertionError("the last attempt returns or raises")


def _check_entrance(programs: PostgresPrograms, cluster: Path, log: Path, port: int, password: str) -> None:
    """Enters once as the application will: a damaged catalogue shows only here."""
    environment = {"LC_ALL": "C", "PGPASSWORD": password, "PGCONNECT_TIMEOUT": "10"}
    if sys.platform == "win32":
        environment |= {name: os.environ[name] for name in ("SYSTEMROOT", "PATH") if name in os.environ}
    answer = subprocess.run(  # noqa: S603 -- our own programs, no shell
        [
            str(programs.bin / "psql"),
            "-XAtqw",
            "-h127.0.0.1",
            f"-p{port}",
            f"-U{ROLE}",
            "-cSELECT 1",
            DATABASE,
        ],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=environment,
    )
    if answer.returncode != 0:
        raise EmbeddedServerError(explain(answer.stderr, cluster, log))


def _remember_port(path: Path, port: int) -> None:
    if _read_text(path) != str(port):
        path.write_text(f"{port}\n")


def _free_port() -> int:
    for _ in range(100):
        port = secrets.choice(_PORTS)
        if _is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if sys.platform != "win32":
            # As PostgreSQL does: connections of the last run that linger do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError, OverflowError):
            probe.bind(("127.0.0.1", port))
            return True
    return False


def _write_secret(path: Path, secret: str) -> None:
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{secret}\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except FileNotFoundError:
        return None


def _read_from(path: Path, offset: int) -> str:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read().decode(errors="replace")


def _shorten(log: Path) -> None:
    """Keeps the newest part of a log that has grown, from the start of a line."""
    if not log.exists() or log.stat().st_size <= _LOG_LIMIT_BYTES:
        return
    newest = _read_from(log, log.stat().st_size - _LOG_KEPT_BYTES)
    log.write_text(newest.partition("\n")[2])
