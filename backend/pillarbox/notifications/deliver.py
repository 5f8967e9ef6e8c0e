"""The outbox's handler: one claimed delivery through its channel, the outcome as a verdict."""

from collections.abc import Mapping

from pillarbox.channels.contract import Channel, Message, PermanentError, TransientError
from pillarbox.notifications.outbox import ClaimedDelivery
from pillarbox.queue.verdict import Done, Failed, Retry, Verdict


class Deliverer:
    """Hands each delivery to the channel it names."""

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self._channels = channels

    async def __call__(self, row: ClaimedDelivery) -> Verdict:
        """Send one delivery."""
        channel = self._channels.get(row.channel)
        if channel is None:
            return Failed("unknown_channel", f"no channel is called {row.channel!r} here")
        message = Message(
            delivery_id=row.id,
            address=row.address,
            title=row.title,
            body=row.body,
            attempt=row.attempts,
        )
        try:
            receipt = await channel.send(message)
        except PermanentError as error:
            return Failed(error.code, error.message)
        except TransientError as error:
            return Retry(error.code, error.message, error.retry_after_seconds)
        return Done(receipt.provider_message_id)

    async def aclose(self) -> None:
        """Release what the channels hold."""
        for channel in self._channels.values():
            await channel.aclose()
