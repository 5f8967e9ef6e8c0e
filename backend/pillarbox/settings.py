"""Every knob, typed, read from the environment and checked before anything starts."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from pillarbox.errors import ConfigurationError
from pillarbox.queue.policy import Backoff, Lease, QueuePolicy

Platform = Literal["resident", "serverless"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What one process runs with. Each field's environment variable stands in `VARIABLES`."""

    host: str = "127.0.0.1"
    port: int = 8000
    data_dir: Path = Path(".pillarbox")
    platform: Platform = "resident"
    log_format: Literal["console", "json"] = "console"
    shutdown_grace_seconds: float = 1.0

    database_url: str | None = None
    database_direct_url: str | None = None
    database_pooled: bool = False
    database_pool_size: int = 10
    database_deadline_seconds: float = 10.0

    delivery_batch_size: int = 25
    delivery_concurrency: int = 5
    delivery_max_attempts: int = 5
    delivery_backoff_base: float = 30.0
    delivery_backoff_factor: float = 4.0
    delivery_backoff_cap: float = 3600.0
    delivery_backoff_jitter: float = 0.0
    delivery_claim_lease: float = 300.0
    delivery_send_timeout: float = 10.0
    delivery_settle_margin: float = 30.0
    delivery_tick: float = 15.0
    delivery_retention_sent_days: float = 7.0
    delivery_retention_failed_days: float = 30.0

    smtp_url: str | None = None
    smtp_from: str = "Pillarbox <pillarbox@localhost>"
    webhook_url: str | None = None
    webhook_secret: str | None = None
    inbox_smtp_port: int = 8025

    max_body_bytes: int = 65_536

    @property
    def delivery_policy(self) -> QueuePolicy:
        """The outbox's numbers as the queue core takes them."""
        return QueuePolicy(
            batch_size=self.delivery_batch_size,
            concurrency=self.delivery_concurrency,
            max_attempts=self.delivery_max_attempts,
            tick_seconds=self.delivery_tick,
            backoff=Backoff(
                base_seconds=self.delivery_backoff_base,
                factor=self.delivery_backoff_factor,
                cap_seconds=self.delivery_backoff_cap,
                jitter=self.delivery_backoff_jitter,
            ),
            lease=Lease(
                seconds=self.delivery_claim_lease,
                batch_size=self.delivery_batch_size,
                concurrency=self.delivery_concurrency,
                run_timeout_seconds=self.delivery_send_timeout,
                settle_margin_seconds=self.delivery_settle_margin,
            ),
        )

    @property
    def uses_inbox(self) -> bool:
        """Whether anything is delivered to the built-in inbox."""
        return self.smtp_url is None or self.webhook_url is None


VARIABLES: dict[str, str] = {
    field: ("DATABASE_URL" if field == "database_url" else f"PILLARBOX_{field.upper()}")
    for field in Settings.__struct_fields__
}
"""Field name to environment variable."""

_MINIMUM: dict[str, float] = {
    "port": 0,
    "database_pool_size": 1,
    "database_deadline_seconds": 0.1,
    "shutdown_grace_seconds": 0,
    "delivery_batch_size": 1,
    "delivery_concurrency": 1,
    "delivery_max_attempts": 1,
    "delivery_backoff_base": 0,
    "delivery_backoff_factor": 1,
    "delivery_backoff_cap": 0,
    "delivery_backoff_jitter": 0,
    "delivery_claim_lease": 1,
    "delivery_send_timeout": 0.1,
    "delivery_settle_margin": 0,
    "delivery_tick": 0.05,
    "delivery_retention_sent_days": 0,
    "delivery_retention_failed_days": 0,
    "inbox_smtp_port": 0,
    "max_body_bytes": 1024,
}
_MAXIMUM: dict[str, float] = {
    "port": 65_535,
    "inbox_smtp_port": 65_535,
    "database_pool_size": 1000,
    "delivery_batch_size": 10_000,
    "delivery_concurrency": 1000,
    "delivery_max_attempts": 1000,
    "delivery_backoff_jitter": 1,
    # A year: beyond it intervals and dates would in the end overflow.
    "delivery_backoff_cap": 31_536_000,
    "delivery_claim_lease": 31_536_000,
    "delivery_tick": 31_536_000,
    "delivery_retention_sent_days": 36_500,
    "delivery_retention_failed_days": 36_500,
}


def load(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read, convert and check the settings.

    An empty variable counts as absent.

    Raises:
        ConfigurationError: a variable is unknown, malformed, out of range, or the lease is too short
            for the batch; the message names the variable and what to set.
    """
    known = {variable: field for field, variable in VARIABLES.items()}
    values: dict[str, str] = {}
    for variable, text in environment.items():
        if variable in known:
            if text.strip():
                values[known[variable]] = text.strip()
        elif variable.startswith("PILLARBOX_"):
            raise ConfigurationError(
                f"{variable} is not a setting of Pillarbox; `pillarbox settings` lists those there are"
            )
    try:
        settings = msgspec.convert(values, Settings, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise ConfigurationError(_name_variable(str(error))) from error
    _check(settings)
    return settings


def _path(kind: type, value: object) -> object:
    if kind is Path:
        return Path(str(value)).expanduser()
    raise NotImplementedError(kind)


def _name_variable(message: str) -> str:
    for field, variable in VARIABLES.items():
        if message.endswith(f"`$.{field}`"):
            return f"{variable}: {message.removesuffix(f' - at `$.{field}`')}"
    return message


def _scheme(url: str) -> str:
    """The scheme of a usable address, else nothing."""
    try:
        parts = urlsplit(url)
        usable = parts.port != 0
    except ValueError:
        return ""
    return parts.scheme if usable else ""


def _check(settings: Settings) -> None:
    for field, minimum in _MINIMUM.items():
        value: float = getattr(settings, field)
        if not value >= minimum or value == math.inf:
            raise ConfigurationError(
                f"{VARIABLES[field]} is {value}; it must be a number of at least {minimum:g}"
            )
    for field, maximum in _MAXIMUM.items():
        value = getattr(settings, field)
        if not value <= maximum:
            raise ConfigurationError(f"{VARIABLES[field]} is {value}; it must be at most {maximum:g}")
    for field in ("database_url", "database_direct_url"):
        url: str | None = getattr(settings, field)
        if url is not None and _scheme(url) not in {"postgresql", "postgres"}:
            raise ConfigurationError(f"{VARIABLES[field]} must be an address that starts with postgresql://")
    if settings.smtp_url is not None and _scheme(settings.smtp_url) not in {"smtp", "smtps"}:
        raise ConfigurationError("PILLARBOX_SMTP_URL must be an address that starts with smtp:// or smtps://")
    if settings.webhook_url is not None and _scheme(settings.webhook_url) not in {"http", "https"}:
        raise ConfigurationError(
            "PILLARBOX_WEBHOOK_URL must be an address that starts with http:// or https://"
        )
    lease = settings.delivery_policy.lease
    if not lease.holds:
        raise ConfigurationError(
            f"the claim lease is too short for the batch: {lease.arithmetic()}. "
            "Raise PILLARBOX_DELIVERY_CLAIM_LEASE or PILLARBOX_DELIVERY_CONCURRENCY, or lower "
            "PILLARBOX_DELIVERY_BATCH_SIZE, PILLARBOX_DELIVERY_SEND_TIMEOUT or "
            "PILLARBOX_DELIVERY_SETTLE_MARGIN"
        )
