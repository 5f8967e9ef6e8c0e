"""Whom PostgreSQL runs as, and what that user may reach: it refuses to run as root."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from pillarbox.database.server_messages import EmbeddedServerError

if sys.platform != "win32":
    import pwd

_PREFERRED_ACCOUNTS = ("pillarbox", "nobody", "daemon")


@dataclass(frozen=True)
class Account:
    """Whom PostgreSQL runs as when we are root, which it refuses to be."""

    uid: int
    gid: int
    name: str


class Place(TypedDict):
    cwd: str
    env: dict[str, str]
    user: NotRequired[int]
    group: NotRequired[int]
    extra_groups: NotRequired[list[int]]


def place_as(account: Account | None, cwd: Path) -> Place:
    """What subprocess needs to run something as that user from that folder."""
    if account is None:
        return {"cwd": str(cwd), "env": environment()}
    return {
        "cwd": str(cwd),
        "env": environment(),
        "user": account.uid,
        "group": account.gid,
        "extra_groups": [],
    }


def environment() -> dict[str, str]:
    """Only what the programs need: no PG* variable that redirects them, none of the application's secrets."""
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
    return {"LC_ALL": "C", "TZ": "UTC"} | {name: os.environ[name] for name in kept if name in os.environ}


def choose_account(cluster: Path) -> Account | None:
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid, _name_of(owner.st_uid))
    for account in _accounts():
        if _runs(["/bin/sh", "-c", ":"], place_as(account, Path("/"))):
            return account
    raise EmbeddedServerError(
        "PostgreSQL refuses to run as root and this system has no other user to run it as: "
        "start Pillarbox as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own"
    )


def _accounts() -> Iterator[Account]:
    entries = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    rank = {name: position for position, name in enumerate(_PREFERRED_ACCOUNTS)}
    for entry in sorted(entries, key=lambda entry: rank.get(entry.pw_name, len(rank))):
        yield Account(entry.pw_uid, entry.pw_gid, entry.pw_name)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def may_enter(directory: Path, cwd: Path, account: Account) -> bool:
    # Asked of the kernel, as that user: mode bits alone know nothing of ACLs and mounts.
    return _runs(
        ["/bin/sh", "-c", 'test -x "$1/." && test -w "$1/."', "sh", str(directory)], place_as(account, cwd)
    )


def works_in(pid: int, directory: Path, account: Account) -> bool:
    """Whether that process of the account has the directory as its working directory, asked as the account.

    Root in a container may read less of another user's process than that user itself.
    """
    script = 'test "/proc/$1/cwd" -ef /proc/self/cwd'
    return _runs(["/bin/sh", "-c", script, "sh", str(pid)], place_as(account, directory))


def _runs(command: list[str], place: Place) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, **place).returncode == 0  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False
