"""What an SMTP server's refusal means: whose fault it is, and whether a later attempt can succeed.

| reply | stage | kind | code |
|---|---|---|---|
| 4xx, 421 | any | transient | `smtp_451_4.3.0` |
| 530, 534, 535, 538 | any | transient: our sign-in is not in order | `smtp_535` |
| 5xx | greeting, EHLO, STARTTLS, AUTH | transient: this relay does not serve us as configured | `smtp_554` |
| 5xx | MAIL | transient: our sender is refused (too large is permanent) | `smtp_sender_553_5.7.1` |
| 552, 5.2.2 | RCPT, DATA | transient: the mailbox is full | `smtp_552_5.2.2` |
| 5.1.x, 5.2.x; bare 5xx of RCPT but 554 | RCPT, DATA | permanent: the address is bad | `smtp_550_5.1.1` |
| 5.7.x; bare 554 | RCPT, DATA | permanent: a policy, the address may be good | `smtp_policy_550_5.7.1` |
| other 5xx | RCPT, DATA | permanent: this message, the address may be good | `smtp_rejected_552_5.3.4` |

So whoever suppresses addresses looks at permanent codes that start with `smtp_5`, and at no others.
"""

import re
from enum import StrEnum

from pillarbox.channels.contract import PermanentError, SendError, TransientError

_ENHANCED = re.compile(r"\s*([245])\.(\d{1,3})\.(\d{1,3})(?!\S)")
_SIGN_IN = frozenset({530, 534, 535, 538})
_TOO_LARGE = frozenset({"5.2.3", "5.3.4"})


class Stage(StrEnum):
    """Where in the conversation the reply came."""

    CONNECT = "connecting"
    AUTH = "signing in"
    MAIL = "naming the sender"
    RCPT = "naming the recipient"
    DATA = "handing over the message"


def refusal(stage: Stage, reply: int, text: str, said: str) -> SendError:
    """The error for a reply that is no success; `said` is the whole of it, fit to be shown."""
    if not 400 <= reply <= 599:
        return TransientError("smtp_protocol", said)
    match = _ENHANCED.match(text)
    # An enhanced code of another class than the reply's is noise (RFC 3463, section 2).
    enhanced = match[0].strip() if match and match[1] == str(reply)[0] else ""
    subject = enhanced.split(".")[1] if enhanced else ""
    code = f"{reply}_{enhanced}" if enhanced else str(reply)

    if reply in _SIGN_IN or (reply >= 500 and stage in {Stage.CONNECT, Stage.AUTH}):
        return TransientError(f"smtp_{reply}", said)
    if reply < 500:
        return TransientError(f"smtp_{code}", said)
    if stage is Stage.MAIL:
        if enhanced in _TOO_LARGE or (reply == 552 and not enhanced):
            return PermanentError(f"smtp_rejected_{code}", said)
        return TransientError(f"smtp_sender_{code}", said)
    if enhanced == "5.2.2" or (stage is Stage.RCPT and reply == 552 and not enhanced):
        return TransientError(f"smtp_{code}", said)
    if subject == "7" or (reply == 554 and not enhanced):
        return PermanentError(f"smtp_policy_{code}", said)
    if enhanced in _TOO_LARGE:
        return PermanentError(f"smtp_rejected_{code}", said)
    if subject in {"1", "2"} or (subject in {"", "0"} and _blames_recipient(stage, reply)):
        return PermanentError(f"smtp_{code}", said)
    return PermanentError(f"smtp_rejected_{code}", said)


def _blames_recipient(stage: Stage, reply: int) -> bool:
    """Without an enhanced code: RCPT is about the address, DATA only where the reply says so."""
    return reply in {550, 551, 553} or (stage is Stage.RCPT and reply not in {500, 503, 552, 554, 555})
