"""The key that all activators sign leases with, kept in the stream ACTIVATOR.

=========================================  ============================================================================
several activators start at once           one stores its key, create-only; all read it from the leader
the stream is not there yet                asked for again until the leading activator has made it
NATS lost its disk                         the first one that connects stores the key that it has: leases stay valid
NATS was restored from an old copy         the stored key is taken; leases of the earlier one stay valid here
=========================================  ============================================================================
"""

import asyncio
import logging
import secrets
from contextlib import suppress
from typing import Final

from gpuruntime.api.invocations import ACTIVATOR_STREAM, LEASE_KEY_SUBJECT
from gpuruntime.bus import Bus, BusError, BusUnavailableError, SubjectTakenError
from gpuruntime.dispatch.activator.leases.signing import KEY_BYTES, LeaseSigner
from gpuruntime.dispatch.activator.server_clock import ServerClock

__all__ = ["SharedKey"]

_LOG: Final = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 60.0
_MOST_EARLIER: Final = 4


class SharedKey:
    """Keeps the key, and the clock of NATS, up to date while it runs."""

    def __init__(self, bus: Bus, clock: ServerClock, retry_seconds: float = _RETRY_SECONDS) -> None:
        self._bus = bus
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._known = asyncio.Event()
        self._problem = ""
        self.signer: LeaseSigner | None = None
        """None until the key was read for the first time; it stays while NATS is away."""

    async def known(self) -> LeaseSigner:
        """The signer, once the key is known."""
        await self._known.wait()
        assert self.signer is not None  # noqa: S101 - set before the event
        return self.signer

    async def run(self) -> None:
        """Read the key after each connect and every minute, until cancelled. NATS never ends it."""
        while True:
            await self._bus.wait_connected()
            try:
                self._take(await self._stored())
                self._problem = ""
            except BusError as error:
                if self._problem != str(error):
                    self._problem = str(error)
                    _LOG.warning("key of leases cannot be read, will retry", extra={"error": self._problem})
                await asyncio.sleep(self._retry_seconds)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await self._bus.wait_disconnected()

    async def _stored(self) -> bytes:
        jetstream = self._bus.jetstream
        info = await jetstream.stream_info(ACTIVATOR_STREAM)
        if info is not None:
            self._clock.observe(info.server_time)
        found = await jetstream.last_message(ACTIVATOR_STREAM, LEASE_KEY_SUBJECT)
        if found is None:
            own = secrets.token_bytes(KEY_BYTES) if self.signer is None else self.signer.key
            try:
                await jetstream.publish(LEASE_KEY_SUBJECT, own, expect_last_subject_sequence=0)
            except SubjectTakenError:
                _LOG.debug("another activator has stored the key of leases")
            found = await jetstream.last_message(ACTIVATOR_STREAM, LEASE_KEY_SUBJECT)
        if found is None or len(found.body) != KEY_BYTES:
            raise BusUnavailableError(f"{LEASE_KEY_SUBJECT}: expected a key of {KEY_BYTES} bytes in {ACTIVATOR_STREAM}")
        return found.body

    def _take(self, key: bytes) -> None:
        known = self.signer
        if known is not None and known.key == key:
            return
        earlier = () if known is None else (known.key, *known.earlier)[:_MOST_EARLIER]
        if known is not None:
            _LOG.warning("another key of leases is stored in NATS than before: it was restored from a copy")
        self.signer = LeaseSigner(key, earlier)
        self._known.set()
