"""What a person reads when PostgreSQL would not start."""

import errno
from pathlib import Path

import pytest

from pillarbox.database.server_messages import cause_of, explain, explain_os_error

FOLDER = Path("/srv/pillarbox/postgres")

OUTPUTS = [
    (
        "disk_full",
        'initdb: error: could not write to file "pg_wal/xlogtemp.31": No space left on device',
        "is full: free some space",
    ),
    (
        "disk_full",
        'LOG:  could not open file "global/pg_control"\n'
        'FATAL:  could not write lock file "postmaster.pid": No space left on device\n',
        "is full: free some space",
    ),
    ("quota", 'FATAL:  could not extend file "base/1/1255": Disk quota exceeded', "quota"),
    ("quota", 'FATAL:  could not write to file "pg_wal/xlogtemp.9": File too large', "ulimit -f"),
    ("read_only", 'FATAL:  could not open lock file "postmaster.pid": Read-only file system', "read-only"),
    (
        "memory",
        "FATAL:  could not create shared memory segment: Cannot allocate memory",
        "memory",
    ),
    (
        "version",
        "FATAL:  database files are incompatible with server\n"
        "DETAIL:  The data directory was initialized by PostgreSQL version 17",
        "pg_dump",
    ),
    (
        "port_taken",
        'LOG:  could not bind IPv4 address "127.0.0.1": Address already in use\n'
        "FATAL:  could not create any TCP/IP sockets",
        "start again",
    ),
    ("still_running", 'FATAL:  lock file "postmaster.pid" already exists', "still runs"),
    ("password", 'FATAL:  password authentication failed for user "pillarbox"', "postgres.password"),
    ("permission", 'FATAL:  data directory "/srv" has wrong ownership', "the user that made it"),
    (
        "corrupt",
        'PANIC:  could not read file "global/pg_control": read 0 of 296',
        "restore the folder from a backup",
    ),
    ("corrupt", "PANIC:  could not locate a valid checkpoint record at 0/1AF4E38", "damaged"),
    ("corrupt", 'FATAL:  could not open file "base/5/pg_filenode.map": No such file or directory', "damaged"),
]


@pytest.mark.parametrize(("cause", "output", "advice"), OUTPUTS)
def test_a_known_failure_is_named_in_one_line_that_says_what_to_do(
    cause: str, output: str, advice: str
) -> None:
    message = explain(output, FOLDER, FOLDER.parent / "postgres.log")

    assert cause_of(output) == cause
    assert advice in message
    assert str(FOLDER) in message or cause in ("memory", "port_taken")
    assert "/srv/pillarbox/postgres.log" in message
    assert "\n" not in message


def test_an_unknown_failure_is_quoted_in_the_servers_own_words(tmp_path: Path) -> None:
    output = (
        "2026-12-01 10:00:00 UTC [7] LOG:  starting\n2026-12-01 10:00:00 UTC [7] FATAL:  the moon is full\n"
    )

    message = explain(output, tmp_path)

    assert 'PostgreSQL says: "the moon is full"' in message


def test_what_is_only_logged_on_the_way_is_not_taken_for_the_reason() -> None:
    output = 'LOG:  database system was interrupted\nFATAL:  parameter "port" is odd\nLOG:  shut down\n'

    assert '"parameter "port" is odd"' in explain(output, FOLDER)


def test_our_own_write_on_a_full_disk_reads_like_the_servers() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "/srv/pillarbox/pillarbox.lock")

    assert "is full: free some space" in explain_os_error(error, FOLDER.parent)


def test_a_folder_that_cannot_be_written_is_named_with_the_reason() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/srv/pillarbox/pillarbox.lock")

    message = explain_os_error(error, FOLDER.parent)

    assert "/srv/pillarbox/pillarbox.lock: Permission denied" in message
    assert "choose another data directory" in message
