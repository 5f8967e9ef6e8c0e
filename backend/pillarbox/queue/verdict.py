"""What a handler can say of the row it ran."""

import msgspec


class Done(msgspec.Struct, frozen=True):
    """It is done; `receipt` is what the other side called it."""

    receipt: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """No repetition can succeed."""

    code: str
    message: str


class Retry(msgspec.Struct, frozen=True):
    """A later attempt may succeed; `retry_after_seconds` is the other side's own wish."""

    code: str
    message: str
    retry_after_seconds: float | None = None


class Release(msgspec.Struct, frozen=True):
    """Not begun or not to be counted: hand the row back, no attempt spent, due after `delay_seconds`."""

    delay_seconds: float = 0.0
    code: str | None = None
    message: str | None = None


Verdict = Done | Failed | Retry | Release
