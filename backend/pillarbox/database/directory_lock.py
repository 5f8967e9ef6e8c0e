"""One Pillarbox per data directory: a lock the operating system drops with the process that holds it."""

import os
import sys
import weakref
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Windows locks byte ranges, and a locked byte cannot be read by others: lock one far behind the pid.
_WINDOWS_LOCK_OFFSET = 1 << 30


class DirectoryInUseError(Exception):
    """The lock is held; `pid` is who wrote its number into the file, if anyone did."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"held by process {pid}" if pid else "held by another process")
        self.pid = pid


class DirectoryLock:
    """Held from construction to `release`, or until the process ends in whatever way."""

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._descriptor)
        except (BlockingIOError, PermissionError) as held:
            owner = _read_pid(self._descriptor)
            self._close()
            raise DirectoryInUseError(owner) from held
        except OSError:  # a file system without locks, say
            self._close()
            raise
        try:
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except OSError:
            self._close()
            raise
        _held.add(self)

    def release(self) -> None:
        # The file stays: unlinking it would let a third process lock a file nobody else can see.
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            # Said aloud: a process forked a moment ago may not have closed its end yet.
            _unlock(self._descriptor)
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def forget_in_forked_child(self) -> None:
        """A forked child shares the lock and would keep it alive after its parent: let go of our end."""
        self._close()


_held: "weakref.WeakSet[DirectoryLock]" = weakref.WeakSet()


def _forget_all_in_forked_child() -> None:
    for lock in list(_held):
        lock.forget_in_forked_child()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_all_in_forked_child)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        os.lseek(descriptor, _WINDOWS_LOCK_OFFSET, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(descriptor: int) -> None:
    if sys.platform == "win32":
        os.lseek(descriptor, _WINDOWS_LOCK_OFFSET, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _read_pid(descriptor: int) -> int | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    text = os.read(descriptor, 32).decode(errors="replace").strip()
    return int(text) if text.isdecimal() else None
