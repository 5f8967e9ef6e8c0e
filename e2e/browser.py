"""Which Chromium the tests drive: Playwright's own where it is installed, else the system's."""

import shutil
from pathlib import Path

from playwright.sync_api import Browser, Playwright

_SYSTEM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_ARGUMENTS = [
    # Tests may run as root, which Chromium's own sandbox refuses.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def launch(playwright: Playwright) -> Browser:
    """Start it.

    Raises:
        RuntimeError: there is none; the message says how to get one.
    """
    if Path(playwright.chromium.executable_path).exists():
        return playwright.chromium.launch(args=_ARGUMENTS)
    for name in _SYSTEM:
        if path := shutil.which(name):
            return playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
    raise RuntimeError("no Chromium: run `python tools/debian.py chromium`, or `playwright install chromium`")
