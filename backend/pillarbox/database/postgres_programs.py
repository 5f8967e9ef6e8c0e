"""Runs PostgreSQL's programs on a data directory, as a user they accept, and ends them with us."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pillarbox.child import end_with_parent
from pillarbox.database.postgres_account import (
    Account,
    Place,
    choose_account,
    environment,
    may_enter,
    place_as,
)
from pillarbox.database.postgres_binaries import find_binaries
from pillarbox.database.server_messages import EmbeddedServerError

# The kernel lets a process into its own working directory whatever the folders above it allow.
_WORKING_DIRECTORY = Path("/proc/self/cwd")


@dataclass(frozen=True)
class PostgresPrograms:
    bin: Path
    major_version: int
    account: Account | None

    @classmethod
    def locate(cls, cluster: Path) -> "PostgresPrograms":
        """The programs, ready to run as the right user for this data directory."""
        account = choose_account(cluster)
        binaries, version = find_binaries(account)
        return cls(binaries, version, account)

    def run(
        self, program: str, arguments: list[str], directory: Path, statements: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program on a data directory to its end, and its whole family with it when interrupted."""
        folder, place = self._reach(directory)
        place["env"]["PGDATA"] = folder
        process = subprocess.Popen(  # noqa: S603 -- our own programs, no shell
            [str(self.bin / program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
            **place,
        )
        with process:
            try:
                output, _ = process.communicate(statements)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    _kill_family(process)
                raise
        return subprocess.CompletedProcess[str](process.args, process.returncode, output)

    def serve(self, arguments: list[str], directory: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts the server. Linux ends it with the thread that calls this: call it from the main thread."""
        folder, place = self._reach(directory)
        return subprocess.Popen(  # noqa: S603 -- our own programs, no shell
            [str(self.bin / "postgres"), "-D", folder, *arguments],  # -D: `ps` tells whose it is
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # A terminal's Ctrl-C is for the application, which stops the server after settling its rows.
            start_new_session=True,
            creationflags=_own_console_group(),
            preexec_fn=end_with_parent(signal.SIGINT),
            **place,
        )

    def hand_over(self, directory: Path) -> None:
        """Gives a data directory to the user the server runs as, with the mode the server insists on."""
        if self.account is not None and directory.stat().st_uid != self.account.uid:
            for folder, _, files in os.walk(directory):
                for path in (Path(folder), *(Path(folder, name) for name in files)):
                    os.chown(path, self.account.uid, self.account.gid, follow_symlinks=False)
        if stat.S_IMODE(directory.stat().st_mode) != 0o700:
            directory.chmod(0o700)

    def _reach(self, directory: Path) -> tuple[str, Place]:
        """How to name the directory to the server's user, and from where."""
        if self.account is None:
            return str(directory), {"cwd": str(directory), "env": environment()}
        if may_enter(directory, Path("/"), self.account):
            return str(directory), place_as(self.account, Path("/"))
        if may_enter(_WORKING_DIRECTORY, directory, self.account):
            return str(_WORKING_DIRECTORY), place_as(self.account, directory)
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, and the user {self.account.name} may not enter {directory}: "
            "start Pillarbox as an ordinary user, or choose a data directory everyone may reach, "
            "such as /var/lib/pillarbox"
        )


def _own_console_group() -> int:
    """What start_new_session is called on Windows."""
    return subprocess.CREATE_NEW_PROCESS_GROUP if sys.platform == "win32" else 0


def _kill_family(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
