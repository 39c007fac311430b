"""Executing Operations: runs the handler of the Operation's type, and stores how it ended."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from gpuruntime.api.operation import OperationFailure
from gpuruntime.kube import KubeError
from gpuruntime.meta import DecodeError
from gpuruntime.service.errors import NotFinishedError, OperationFailedError, ServiceError
from gpuruntime.service.operations.lease import LeaseLostError, OperationLease, Outcome
from gpuruntime.service.operations.metrics import OperationCounters, OperationEnd

__all__ = ["OperationHandler", "OperationWorker"]

_LOG = logging.getLogger(__name__)


class OperationHandler(Protocol):
    """Executes Operations of one type."""

    @property
    def type(self) -> str: ...

    async def run(self, lease: OperationLease) -> Outcome:
        """Do the work, or the rest of it. Write with `lease.client` only.

        All attempts are the same: look for what an earlier one left with `lease.earlier`, and do what is missing.

        The outcome is stored before a caller receives it, unless it is evident.

        Raises:
            ServiceError: nothing was changed; the Operation is withdrawn.
            OperationFailedError: the Operation has failed.
            KubeError: this attempt was interrupted; another one follows.
        """


class OperationWorker:
    """Executes Operations with the handlers that this process has."""

    def __init__(self, handlers: Sequence[OperationHandler]) -> None:
        self._handlers = {handler.type: handler for handler in handlers}
        self.counters = OperationCounters(self._handlers)

    def handles(self, type_: str) -> bool:
        """Whether this process has a handler for Operations of this type."""
        return type_ in self._handlers

    async def execute(self, lease: OperationLease) -> None:
        """Work on the Operation until it ends or this attempt is interrupted; then another attempt follows later.

        Guarantees: the lease's `outcome` is completed. Raises nothing but cancellation.
        """
        about = {
            "operation": lease.operation.metadata.name,
            "type": lease.operation.spec.type,
            "attempt": lease.attempt,
        }
        renewing = asyncio.create_task(lease.renew(), name=f"lease on {lease.operation.metadata.name}")
        clock = asyncio.get_running_loop().time
        began = clock()
        end: OperationEnd = "interrupted"
        try:
            end = await self._to_the_end(lease)
        except KubeError as error:
            _LOG.warning("operation interrupted", extra=about | {"error": str(error)})
            lease.fail(error)
        except (LeaseLostError, DecodeError) as error:
            # Not an error for the caller: another replica finishes the Operation.
            _LOG.warning("operation interrupted", extra=about | {"error": str(error)})
        except Exception as error:  # noqa: BLE001 - one operation must not end the process that works on others
            _LOG.exception("operation interrupted by an unexpected error", extra=about)
            lease.fail(error)
        finally:
            self.counters.ended(lease.operation.spec.type, end, clock() - began)
            _LOG.info("operation attempt ended", extra=about | {"end": end})
            lease.fail(NotFinishedError(f"operation {lease.operation.spec.operation_id} will be finished later"))
            lease.close()
            renewing.cancel()
            await asyncio.wait([renewing])

    async def _to_the_end(self, lease: OperationLease) -> OperationEnd:
        try:
            outcome = await self._handlers[lease.operation.spec.type].run(lease)
        except ServiceError as error:
            await lease.withdraw()
            lease.fail(error)
            return "withdrawn"
        except OperationFailedError as error:
            await lease.end(error=OperationFailure(error.code, str(error)))
            lease.fail(error)
            return "failed"
        if not outcome.is_evident:
            await lease.record(outcome)
        lease.resolve(outcome)
        async with lease.throttle.background():
            if outcome.cleanup is not None:
                await outcome.cleanup()
            await lease.end(result=outcome.result)
        return "succeeded"
