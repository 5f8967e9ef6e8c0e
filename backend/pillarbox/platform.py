"""Who drains here, and what the page may know of this process."""

from typing import Literal

import msgspec
from litestar import Controller, get

from pillarbox.notifications.outbox import ClaimedDelivery
from pillarbox.queue.drain import Drain, DrainStatus
from pillarbox.queue.wake import Listener
from pillarbox.settings import Platform, Settings
from pillarbox.version import VERSION


class PlatformState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The platform as it is now. `dormant`: this process runs no loop, somebody else has to push."""

    platform: Platform
    dormant: bool
    drain: DrainStatus
    wake: Literal["listen", "poll"]
    inbox: bool
    version: str


class PlatformView:
    """Reads the state of this process."""

    def __init__(self, settings: Settings, drain: Drain[ClaimedDelivery], listener: Listener) -> None:
        self._settings = settings
        self._drain = drain
        self._listener = listener

    def read(self) -> PlatformState:
        """The state now."""
        return PlatformState(
            platform=self._settings.platform,
            dormant=self._settings.platform == "serverless",
            drain=self._drain.status,
            wake="listen" if self._listener.listening else "poll",
            inbox=self._settings.uses_inbox,
            version=VERSION,
        )


class PlatformController(Controller):
    """`/api/platform`."""

    path = "/api/platform"
    tags = ("platform",)

    @get(operation_id="readPlatform", sync_to_thread=False)
    def read(self, platform: PlatformView) -> PlatformState:
        """Who drains here."""
        return platform.read()
