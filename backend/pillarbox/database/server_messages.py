"""Turns what PostgreSQL printed when it failed into one line that says what is wrong and what to do."""

import errno
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from pillarbox.errors import PillarboxError

# PostgreSQL writes its log in segments of 16 MB and cannot start without room for one.
_LEAST_FREE_BYTES = 16 * 1024 * 1024

_SEVERE = re.compile(r"(?:PANIC|FATAL|ERROR|initdb: error|psql: error):\s+(?P<text>.+)")


class EmbeddedServerError(PillarboxError):
    """The embedded PostgreSQL cannot run; the message is one line and says what to do."""


class _Cause(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    advice: str


def _cause(name: str, pattern: str, advice: str) -> _Cause:
    return _Cause(name, re.compile(pattern, re.IGNORECASE), advice)


_DISK_FULL = "The disk that holds {folder} is full: free some space and start again"

# The first that matches wins: what stopped the disk stops everything behind it.
_CAUSES = (
    _cause("disk_full", r"No space left on device|Check free disk space", _DISK_FULL),
    _cause(
        "quota",
        r"Disk quota exceeded|File too large",
        "A disk quota or file size limit stops PostgreSQL from writing to {folder}: "
        "raise it (see `quota` and `ulimit -f`) and start again",
    ),
    _cause(
        "read_only",
        r"Read-only file system",
        "{folder} is on a read-only file system: choose a data directory that can be written",
    ),
    _cause(
        "memory",
        r"could not (?:create|map|resize).*shared memory|Cannot allocate memory",
        "The system gives PostgreSQL too little (shared) memory: free some, or give the container more, "
        "and start again",
    ),
    _cause(
        "version",
        r"database files are incompatible with server",
        "The database in {folder} was made by another PostgreSQL or on another kind of machine: "
        "start it there and move the data with pg_dump, or move the folder aside to begin anew",
    ),
    _cause("port_taken", r"Address already in use", "The port was taken by another program: start again"),
    _cause(
        "still_running",
        r'lock file "postmaster\.pid" already exists|pre-existing shared memory block',
        "Another PostgreSQL still runs on {folder}: stop it and start again",
    ),
    _cause(
        "password",
        r"password authentication failed",
        "The password kept beside {folder} is not the database's: delete that file (postgres.password) "
        "and start again, a new one is made",
    ),
    _cause(
        "database_missing",
        r'database "[^"]*" does not exist',
        "The database in {folder} lacks what Pillarbox created there: restore the folder from a backup, "
        "or move it aside to begin anew",
    ),
    _cause(
        "permission",
        r"Permission denied|Operation not permitted|has wrong ownership",
        "PostgreSQL may not use {folder}: give it back to the user that made it, "
        "or choose another data directory",
    ),
    _cause(
        "corrupt",
        r"pg_control|control file|checkpoint record|invalid page|is not a valid data directory|"
        r"could not (?:open|read|access) (?:file|directory)|invalid data in file|"
        r"could not find (?:the database|redo)|relation mapping file|cache lookup failed|"
        r"(?:contains|has) (?:invalid|wrong|unexpected)|terminated by signal|invalid magic|PANIC",
        "The database in {folder} is damaged: "
        "restore the folder from a backup, or move it aside to begin anew",
    ),
)


def cause_of(output: str) -> str | None:
    """The name of the known cause in a server's output, if there is one."""
    found = _find(output)
    return found.name if found else None


def explain(output: str, folder: Path, log: Path | None = None) -> str:
    """One line: what is wrong, what to do, the server's own words, where to read more."""
    found = _find(output)
    if (found is None or found.name == "corrupt") and _is_full(folder):
        # A server on a full disk often cannot even log why it stopped, and cut-short files look damaged.
        advice = _DISK_FULL
    elif found is None:
        advice = "PostgreSQL could not run in {folder}: read what it says and start again"
    else:
        advice = found.advice
    parts = [advice.format(folder=folder)]
    if words := _own_words(output):
        parts.append(f'PostgreSQL says: "{words}"')
    if log is not None:
        parts.append(f"Its log is {log}")
    return one_line(". ".join(parts))


def explain_os_error(error: OSError, folder: Path) -> str:
    """The same for an error our own reading and writing met."""
    if error.errno == errno.ENOSPC:
        return one_line(_DISK_FULL.format(folder=folder))
    reason = error.strerror or str(error)
    where = error.filename or folder
    return one_line(
        f"Pillarbox cannot use its data directory {folder} ({where}: {reason}): "
        "make it writable for this user, or choose another data directory"
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


def _find(output: str) -> _Cause | None:
    return next((cause for cause in _CAUSES if cause.pattern.search(output)), None)


def _own_words(output: str) -> str:
    severe = [match["text"] for match in _SEVERE.finditer(output)]
    if severe:
        return severe[0].strip()
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _is_full(folder: Path) -> bool:
    existing = next((place for place in (folder, *folder.parents) if place.exists()), None)
    return existing is not None and shutil.disk_usage(existing).free < _LEAST_FREE_BYTES
