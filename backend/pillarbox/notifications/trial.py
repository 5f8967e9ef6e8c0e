"""Trying the outbox: notifications to the built-in inbox, and rehearsals of what can go wrong."""

from collections.abc import Callable
from typing import Literal
from urllib.parse import urlencode, urlsplit
from uuid import UUID

import msgspec
from email_validator import EmailNotValidError, validate_email
from litestar.exceptions import ValidationException

from pillarbox.accounts.people import ensure_person
from pillarbox.database.engine import Database
from pillarbox.notifications.service import Delivery, Draft, Target, find_delivery, recent_deliveries, send

Channel = Literal["email", "webhook"]
Rehearsal = Literal["deliver", "poison", "flaky", "hold"]

_LOCAL_PARTS: dict[Rehearsal, str] = {
    "deliver": "ada",
    "poison": "poison",
    "flaky": "flaky",
    "hold": "hold",
}


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What to enqueue. Without `address` it goes where the rehearsal is played."""

    channel: Channel
    rehearsal: Rehearsal = "deliver"
    count: int = 1
    title: str | None = None
    body: str | None = None
    address: str | None = None


class TrialOutbox:
    """Writes trial notifications, and reads the newest deliveries."""

    def __init__(
        self, database: Database, *, webhook_url: str, budget: int, announce: Callable[[], None]
    ) -> None:
        self._database = database
        self._webhook_url = webhook_url
        self._budget = budget
        self._announce = announce

    async def enqueue(self, trial: Trial, *, announce: bool = True) -> list[UUID]:
        """Write `count` notifications with one delivery each, all or none; answers the delivery ids.

        Raises:
            ValidationException: the address is not one of the channel's notation.
        """
        target = Target(trial.channel, self._address(trial))
        async with self._database.session() as session:
            person_id = await ensure_person(session, name="Ada", email="ada@inbox.pillarbox.example")
            drafts = [
                Draft(
                    person_id=person_id,
                    type="system",
                    title=trial.title or _title(trial, number),
                    body=trial.body or "Written to the outbox by the showcase page.",
                    targets=(target,),
                )
                for number in range(1, trial.count + 1)
            ]
            ids = await send(session, drafts, budget=self._budget)
        if announce:
            self._announce()
        return ids

    async def recent(self, limit: int) -> list[Delivery]:
        """The newest deliveries first."""
        async with self._database.session() as session:
            return await recent_deliveries(session, limit)

    async def find(self, delivery_id: UUID) -> Delivery | None:
        """One delivery."""
        async with self._database.session() as session:
            return await find_delivery(session, delivery_id)

    def _address(self, trial: Trial) -> str:
        if trial.channel == "email":
            if trial.address is None:
                return f"{_LOCAL_PARTS[trial.rehearsal]}@inbox.pillarbox.example"
            return _mail_address(trial.address)
        if trial.address is None:
            return f"{self._webhook_url}?{urlencode({'rehearsal': trial.rehearsal})}"
        return _web_address(trial.address)


def _title(trial: Trial, number: int) -> str:
    words = {"deliver": "Hello", "poison": "Never arrives", "flaky": "Second time lucky", "hold": "On hold"}
    return (
        words[trial.rehearsal] if trial.count == 1 else f"{words[trial.rehearsal]} {number} of {trial.count}"
    )


def _mail_address(text: str) -> str:
    try:
        return validate_email(text, check_deliverability=False, test_environment=True).normalized
    except EmailNotValidError as error:
        raise _refuse(f"This is not a mail address: {error}") from error


def _web_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() or not character.isprintable() for character in text):
        raise _refuse("This is not a web address: it must look like https://host/path.")
    return text


def _refuse(detail: str) -> ValidationException:
    return ValidationException(detail, extra=[{"key": "address", "message": detail}])
