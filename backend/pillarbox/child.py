"""Child processes that end with their parent, however it ends."""

import ctypes
import os
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def end_with_parent(signal_number: int) -> Callable[[], None] | None:
    """On Linux, what makes the kernel signal a child when this process dies; for `preexec_fn`.

    The kernel watches the thread that starts the child, so start it from the main one. Elsewhere None.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return before_exec
