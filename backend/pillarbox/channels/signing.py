"""Standard Webhooks signatures (version 1: HMAC-SHA256), made and checked."""

import base64
import binascii
import hmac
import time
from collections.abc import Mapping, Sequence

from pillarbox.errors import ConfigurationError, PillarboxError

TOLERANCE_SECONDS = 300.0
"""How far a signed timestamp may lie from the receiver's clock; an older one may be a replay."""

_PREFIX = "whsec_"
_VERSION = "v1,"


class InvalidSignatureError(PillarboxError):
    """A webhook that was not signed by us, not now, or not as it arrived; answer 401 and drop it."""


def decode_secret(secret: str) -> bytes:
    """The key of a `whsec_…` secret.

    Raises:
        ConfigurationError: it is not base64, or shorter than the 24 bytes the standard asks for.
    """
    encoded = secret.strip().removeprefix(_PREFIX)
    try:
        # Some generators drop the padding; what is too much of it is ignored.
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < 24:
        raise ConfigurationError(
            "PILLARBOX_WEBHOOK_SECRET must read whsec_ followed by base64 of at least 24 random bytes"
        )
    return key


def sign(keys: Sequence[bytes], webhook_id: str, timestamp: int, body: bytes) -> str:
    """The `webhook-signature` header: one signature a live key, so that keys can be rotated."""
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    return " ".join(_VERSION + base64.b64encode(_digest(key, signed)).decode() for key in keys)


def verify(
    secrets: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float | None = None,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> None:
    """Check that `body` was signed with one of `secrets`, and lately; header names in any case.

    Raises:
        InvalidSignatureError: it was not.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    webhook_id, timestamp = lower.get("webhook-id", ""), lower.get("webhook-timestamp", "")
    # Nothing but digits: what is signed is the number we compare, not another spelling of it.
    if not webhook_id or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15):
        raise InvalidSignatureError("webhook-id or webhook-timestamp is missing or malformed")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance_seconds:
        raise InvalidSignatureError("the webhook's timestamp is too far from now")
    signed = f"{webhook_id}.{timestamp}.".encode(errors="replace") + body
    given = [_decode(part) for part in lower.get("webhook-signature", "").split()]
    expected = [_digest(decode_secret(secret), signed) for secret in secrets]
    # Every pair is compared, so that the time taken does not tell which one was near.
    if not sum(hmac.compare_digest(one, other) for one in given for other in expected):
        raise InvalidSignatureError("no signature of the webhook matches")


def _digest(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")


def _decode(part: str) -> bytes:
    if not part.startswith(_VERSION):
        return b""
    try:
        return base64.b64decode(part.removeprefix(_VERSION), validate=True)
    except (binascii.Error, ValueError):
        return b""
