"""Signatures agree with the reference library, and nothing else passes."""

import base64
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from pillarbox.channels.signing import InvalidSignatureError, decode_secret, sign, verify
from pillarbox.errors import ConfigurationError

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()
NOW = 1_790_000_000


def signed(body: bytes, *secrets: str, at: int = NOW, webhook_id: str = "0193-abc") -> dict[str, str]:
    keys = [decode_secret(secret) for secret in secrets or (SECRET,)]
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(at),
        "webhook-signature": sign(keys, webhook_id, at, body),
    }


@given(body=st.text(), webhook_id=st.uuids().map(str), key=st.binary(min_size=24, max_size=64))
def test_a_signature_is_the_one_the_reference_library_makes(body: str, webhook_id: str, key: bytes) -> None:
    body = body.encode(errors="replace").decode()
    secret = "whsec_" + base64.b64encode(key).decode()
    expected = Webhook(secret).sign(webhook_id, datetime.fromtimestamp(NOW, UTC), body)
    assert sign([decode_secret(secret)], webhook_id, NOW, body.encode()) == expected


def test_the_reference_library_accepts_what_is_signed_here() -> None:
    headers = signed(b'{"a":1}', at=int(time.time()))
    assert Webhook(SECRET).verify(b'{"a":1}', headers) == {"a": 1}


def test_what_the_reference_library_signs_is_accepted_here() -> None:
    body = '{"ü":1}'
    headers = {
        "Webhook-Id": "x",
        "Webhook-Timestamp": str(NOW),
        "Webhook-Signature": Webhook(SECRET).sign("x", datetime.fromtimestamp(NOW, UTC), body),
    }
    verify([SECRET], headers, body.encode(), now=NOW)


def test_while_a_secret_is_rotated_receivers_with_either_accept() -> None:
    headers = signed(b"x", SECRET, OTHER)
    verify([SECRET], headers, b"x", now=NOW)
    verify([OTHER], headers, b"x", now=NOW)
    verify([OTHER, SECRET], signed(b"x", SECRET), b"x", now=NOW)


@pytest.mark.parametrize("skew", [-300, -1, 0, 300])
def test_a_clock_up_to_five_minutes_off_is_tolerated(skew: int) -> None:
    verify([SECRET], signed(b"x", at=NOW + skew), b"x", now=NOW)


@pytest.mark.parametrize("skew", [-301, 301, -NOW])
def test_a_timestamp_further_off_is_a_replay(skew: int) -> None:
    with pytest.raises(InvalidSignatureError, match="timestamp"):
        verify([SECRET], signed(b"x", at=NOW + skew), b"x", now=NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": ""},
        {"webhook-signature": "v1"},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,not base64!"},
        {"webhook-signature": "v1,ünïcode"},
        {"webhook-signature": "v1a," + sign([decode_secret(SECRET)], "0193-abc", NOW, b"x")[3:]},
        {"webhook-id": "0193-abd"},
        {"webhook-id": ""},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": f"{NOW}.0"},
        {"webhook-timestamp": f" {NOW}"},
        {"webhook-timestamp": "9" * 5000},
        {"webhook-timestamp": str(NOW + 1)},
    ],
)
def test_a_changed_header_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(InvalidSignatureError):
        verify([SECRET], signed(b"x") | change, b"x", now=NOW)


def test_a_changed_body_is_refused() -> None:
    with pytest.raises(InvalidSignatureError):
        verify([SECRET], signed(b"x"), b"y", now=NOW)


def test_another_secret_is_refused() -> None:
    with pytest.raises(InvalidSignatureError):
        verify([OTHER], signed(b"x"), b"x", now=NOW)


def test_no_headers_at_all_are_refused() -> None:
    with pytest.raises(InvalidSignatureError):
        verify([SECRET], {}, b"x")


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_?", "whsec_" + base64.b64encode(b"x" * 23).decode()])
def test_a_secret_that_cannot_protect_anything_is_refused_at_the_start(secret: str) -> None:
    with pytest.raises(ConfigurationError, match="PILLARBOX_WEBHOOK_SECRET"):
        decode_secret(secret)


def test_a_secret_without_its_padding_or_prefix_is_the_same_key() -> None:
    encoded = base64.b64encode(bytes(range(32))).decode()
    assert decode_secret(encoded.rstrip("=")) == decode_secret("whsec_" + encoded) == bytes(range(32))
