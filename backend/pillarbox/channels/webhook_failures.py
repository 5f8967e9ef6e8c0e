"""What an exchange that came to no answer means; the codes stand in `webhook`."""

import errno

import aiohttp

from pillarbox.channels.contract import PermanentError, SendError, TransientError
from pillarbox.channels.wording import one_line


def send_error(error: Exception, host: str) -> SendError:
    """The error for an exchange with `host` that failed; never with the URL, which may hold a token."""
    match error:
        case aiohttp.InvalidURL():
            return PermanentError("webhook_bad_url", "the address is not a usable URL; correct it")
        case aiohttp.ClientConnectorDNSError():
            return TransientError("webhook_dns", _words(host, "the name does not resolve"))
        case aiohttp.ClientSSLError() | aiohttp.ClientConnectorCertificateError():
            return TransientError("webhook_tls", _words(host, f"no secure connection: {_cause(error)}"))
        case aiohttp.ClientConnectorError():
            return _no_connection(error, host)
        case TimeoutError():
            return TransientError("webhook_timeout", _words(host, "no answer in time"))
        case aiohttp.ServerDisconnectedError() | OSError():
            return TransientError("webhook_disconnected", _words(host, "the connection broke"))
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return TransientError("webhook_bad_answer", _words(host, "the answer is not HTTP"))
        case ValueError():
            # What the URL's parsers let through and the host's encoding does not.
            return PermanentError("webhook_bad_url", "the address is not a usable URL; correct it")
        case _:
            return TransientError("webhook_failed", _words(host, type(error).__name__))


def _no_connection(error: aiohttp.ClientConnectorError, host: str) -> SendError:
    cause = error.os_error
    if isinstance(cause, TimeoutError):
        return TransientError("webhook_timeout", _words(host, "no connection in time"))
    # With several addresses the loop joins their errors into one without a number.
    if cause.errno == errno.ECONNREFUSED or f"[Errno {errno.ECONNREFUSED}]" in str(cause):
        return TransientError("webhook_refused", _words(host, "nobody listens there"))
    if isinstance(cause, ConnectionError):
        return TransientError("webhook_disconnected", _words(host, "the connection broke while it was made"))
    return TransientError("webhook_unreachable", _words(host, cause.strerror or type(cause).__name__))


def _cause(error: aiohttp.ClientError) -> str:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return str(cause or type(error).__name__)


def _words(host: str, what: str) -> str:
    return one_line(f"{host}: {what}")
