"""Finding or making the person a notification is for."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from uuid_utils.compat import uuid7

# DO UPDATE, not DO NOTHING: only then RETURNING answers for a row that was there before.
_ENSURE = text("""\
INSERT INTO accounts.people (id, name, email)
VALUES (:id, :name, :email)
ON CONFLICT (email) DO UPDATE SET email = excluded.email
RETURNING id
""")


async def ensure_person(session: AsyncSession, *, name: str, email: str) -> UUID:
    """The person with this address, made when there is none."""
    result = await session.execute(_ENSURE, {"id": uuid7(), "name": name, "email": email})
    return result.scalar_one()
