"""A proxy in front of a real API server, and the faults that it injects: lost, delayed, failed and cut requests.

::

    async with FaultProxy(cluster.server, cluster.authority) as proxy:
        with proxy.inject(LoseResponses(times=1), method="POST", path=".*/pods"):
            ...  # a client of proxy.url creates a pod and never sees the response
"""

from gpuruntime.testing.faults.definitions import (
    CutAfterBytes,
    CutAfterEvents,
    DelayEvents,
    DelayRequests,
    DieAfterWrites,
    DieAtOnce,
    DieBeforeWrite,
    DropRequests,
    FailRequests,
    Fault,
    HoldEvents,
    LoseResponses,
    RequestFault,
    StallRequests,
)
from gpuruntime.testing.faults.exchanges import Call, Exchange, ExchangeLog
from gpuruntime.testing.faults.proxy import BearerToken, ClientCertificate, FaultProxy, Identity
from gpuruntime.testing.faults.registry import ActiveFault

__all__ = [
    "ActiveFault",
    "BearerToken",
    "Call",
    "ClientCertificate",
    "CutAfterBytes",
    "CutAfterEvents",
    "DelayEvents",
    "DelayRequests",
    "DieAfterWrites",
    "DieAtOnce",
    "DieBeforeWrite",
    "DropRequests",
    "Exchange",
    "ExchangeLog",
    "FailRequests",
    "Fault",
    "FaultProxy",
    "HoldEvents",
    "Identity",
    "LoseResponses",
    "RequestFault",
    "StallRequests",
]
