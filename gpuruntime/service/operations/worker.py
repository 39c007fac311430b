"""Carrying out an Operation: the work of its type, and what is written down when it ends."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from gpuruntime.api.operation import OperationFailure
from gpuruntime.kube import KubeError
from gpuruntime.meta import DecodeError
from gpuruntime.service.errors import FailedForGoodError, NotFinishedError, ServiceError
from gpuruntime.service.operations.lease import LostHoldError, OperationLease, Outcome
from gpuruntime.service.operations.metrics import OperationCounters, OperationEnd

__all__ = ["OperationRunner", "Work"]

_LOG = logging.getLogger(__name__)


class Work(Protocol):
    """What one type of Operation does."""

    @property
    def type(self) -> str: ...

    async def run(self, hold: OperationLease) -> Outcome:
        """Do it, or the rest of it: `hold.is_resumed` says whether somebody may have begun. Write by `hold.client`.

        The outcome is written down before a caller hears of it, unless it says that it is evident.

        Raises:
            ServiceError: nothing came of it; the Operation is withdrawn.
            FailedForGoodError: the Operation has failed.
            KubeError: somebody will try again.
        """


class OperationRunner:
    """Runs the works of all types that this process knows."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = {work.type: work for work in works}
        self.counters = OperationCounters(self._works)

    def knows(self, type_: str) -> bool:
        """Whether this process can do what Operations of this type ask for."""
        return type_ in self._works

    async def carry_out(self, hold: OperationLease) -> None:
        """Work on the Operation to its end, or until that fails; then somebody takes it over after a while.

        Guarantees: whoever waits for the outcome of the hold hears of it. Nothing but cancellation is raised.
        """
        about = {"operation": hold.operation.metadata.name, "type": hold.operation.spec.type, "attempt": hold.attempt}
        keeping = asyncio.create_task(hold.keep(), name=f"hold on {hold.operation.metadata.name}")
        clock = asyncio.get_running_loop().time
        began = clock()
        end: OperationEnd = "interrupted"
        try:
            end = await self._to_the_end(hold)
        except KubeError as error:
            _LOG.warning("operation interrupted", extra=about | {"error": str(error)})
            hold.disappoint(error)
        except (LostHoldError, DecodeError) as error:
            # Nothing that concerns whoever waits: others finish it.
            _LOG.warning("operation interrupted", extra=about | {"error": str(error)})
        except Exception as error:  # noqa: BLE001 - one operation must not end the process that works on others
            _LOG.exception("operation interrupted by a mistake in its work", extra=about)
            hold.disappoint(error)
        finally:
            self.counters.ended(hold.operation.spec.type, end, clock() - began)
            _LOG.info("operation worked on", extra=about | {"end": end})
            hold.disappoint(NotFinishedError(f"operation {hold.operation.spec.operation_id} will be finished later"))
            hold.release()
            keeping.cancel()
            await asyncio.wait([keeping])

    async def _to_the_end(self, hold: OperationLease) -> OperationEnd:
        try:
            outcome = await self._works[hold.operation.spec.type].run(hold)
        except ServiceError as error:
            await hold.withdraw()
            hold.disappoint(error)
            return "withdrawn"
        except FailedForGoodError as error:
            await hold.end(error=OperationFailure(error.code, str(error)))
            hold.disappoint(error)
            return "failed"
        if not outcome.is_evident:
            await hold.record(outcome)
        hold.announce(outcome)
        async with hold.precedence.afterwards():
            if outcome.rest is not None:
                await outcome.rest()
            await hold.end(result=outcome.result)
        return "succeeded"
