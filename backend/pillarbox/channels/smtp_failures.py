"""What a connection that failed means, as distinct codes; all of them transient.

| code | what happened |
|---|---|
| `smtp_dns` | the relay's name does not resolve |
| `smtp_refused` | nobody listens there |
| `smtp_unreachable` | no way to the host |
| `smtp_tls` | no encrypted connection: certificate, handshake, or STARTTLS not offered where required |
| `smtp_disconnected` | the relay hung up before the message was handed over |
| `smtp_timeout` | no answer in time, before the message was handed over |
| `smtp_protocol` | an answer that is not SMTP |
| `smtp_outcome_unknown` | handed over, then no answer: the message may have been taken |
"""

import errno
import socket
import ssl

from pillarbox.channels.contract import TransientError
from pillarbox.channels.smtp_replies import Stage
from pillarbox.channels.wording import one_line

_WORDS = {
    "smtp_timeout": "gave no answer in time",
    "smtp_disconnected": "hung up",
    "smtp_protocol": "answered something that is not SMTP",
}


def lost(code: str, stage: Stage, handed_over: bool, host: str) -> TransientError:
    """The conversation broke off with `code`."""
    if handed_over:
        return TransientError(
            "smtp_outcome_unknown",
            f"{host} {_WORDS[code]} after the message was handed over; it may have been taken",
        )
    return TransientError(code, f"{host} {_WORDS[code]} when {stage}")


def unreachable(error: BaseException, stage: Stage, host: str) -> TransientError:
    """No conversation came about."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    code = _code(cause)
    if code in _WORDS:
        return lost(code, stage, False, host)
    return TransientError(code, one_line(f"{host}: {cause}"))


def _code(cause: BaseException) -> str:
    if isinstance(cause, socket.gaierror):
        return "smtp_dns"
    if isinstance(cause, ssl.SSLError):
        return "smtp_tls"
    if isinstance(cause, TimeoutError):
        return "smtp_timeout"
    # With several addresses the loop joins their errors into one without a number.
    if isinstance(cause, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(cause):
        return "smtp_refused"
    if isinstance(cause, ConnectionError | EOFError):
        return "smtp_disconnected"
    return "smtp_unreachable"
