"""The process: `python -m website`, with the credentials that `kubectl` would use, or those of its pod."""

import asyncio
import os

from gpuruntime.control import Election, HttpAddress, Manager, ManagerOptions, configure_logging
from gpuruntime.kube import Credentials, infer
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap, Service
from website.kind import Website
from website.reconciler import reconcile

__all__ = ["build", "main"]

_NAME = "website-operator"


def build(credentials: Credentials, namespace: str = _NAME, port: int = 8081) -> Manager:
    """The manager with its controller, ready to run. `gpuruntime generate rbac` reads its permissions.

    `namespace` is that of the Lease of the election, `port` is for probes and metrics.
    """
    options = ManagerOptions(
        _NAME, http=HttpAddress("0.0.0.0", port), election=Election(namespace, _NAME), signals=True
    )
    manager = Manager(credentials, options)
    websites = manager.controller(Website).owns(ConfigMap, Deployment, Service, labels="example.org/website")
    websites.updates_status().records_events().reconcile(reconcile)
    return manager


async def main() -> None:
    environment = os.environ
    await build(infer(), environment.get("POD_NAMESPACE", _NAME), int(environment.get("PORT", "8081"))).run()


if __name__ == "__main__":
    configure_logging()
    asyncio.run(main())
