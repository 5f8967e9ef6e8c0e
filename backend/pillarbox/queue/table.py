"""A queue table described once; every statement of the core is built from this description."""

from collections.abc import Callable
from typing import Generic, TypeVar
from uuid import UUID

import msgspec


class Claimed(msgspec.Struct, frozen=True):
    """The columns every claim returns first, in this order; a table's own row type adds its columns."""

    id: UUID
    attempts: int
    max_attempts: int
    budget: int


RowT = TypeVar("RowT", bound=Claimed)


class QueueTable(msgspec.Struct, Generic[RowT], frozen=True, kw_only=True):
    """What the core has to know of one table.

    `name` is schema-qualified. `claim` is the whole claim statement with `$1` as its limit; its
    RETURNING list fills `row` by position. Statuses are literals: under a generic plan a parameter would
    keep the planner from the partial indexes. `queue` is the name under which depth is counted.
    """

    queue: str
    name: str
    claim: str
    row: Callable[..., RowT]
    active: str
    done: str
    failed: str
    dead: str
    done_at: str
    receipt: str
