"""The controller that enforces network policies on a node, as the network plugins of clusters do it.

What happens when something fails:

| what | then |
|---|---|
| the agent ends, in any moment | the last table stays in force; the next agent writes a whole one |
| `nft` fails | the last table stays in force, and the run is repeated with backoff |
| the API server is away | the last table stays in force |
| the node ends | its network namespace ends with it, and the table, too |
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gpuruntime.control import Context, Manager, Result
from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.kube.builtin.networking import NetworkPolicy
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from gpuruntime.testing.network_policies.nftables import render
from gpuruntime.testing.network_policies.rules import pod_rules

__all__ = ["LoadError", "enforce_network_policies", "load_table"]

_LOG: Final = logging.getLogger(__name__)


class LoadError(Exception):
    """`nft` refused the table; the message is its own."""


async def load_table(script: str) -> None:
    """Run a script of nftables in the network namespace of this process, all of it or nothing.

    Raises:
        LoadError: nothing was changed.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("nft", "-f", "-", stdin=pipe, stdout=pipe, stderr=pipe)
    _, errors = await process.communicate(script.encode())
    if process.returncode != 0:
        raise LoadError(errors.decode(errors="replace").strip())


def enforce_network_policies(manager: Manager, node: str, load: Callable[[str], Awaitable[None]] = load_table) -> None:
    """Add a controller that keeps the table of a node equal to the cluster's network policies.

    A change of a policy, a pod or a namespace replaces the table in one transaction. A table that would not change is
    not loaded. A policy applies to a pod as soon as the pod's address is in its status: until then the pod is open, as
    with most network plugins. Connections that exist already go on.
    """
    table = ObjectKey("", node)
    loaded = ""

    async def reconcile(_: ObjectKey, ctx: Context) -> Result:
        nonlocal loaded
        policies, pods = ctx.store(NetworkPolicy).list().items, ctx.store(Pod).list().items
        rules = pod_rules(node, policies, pods, ctx.store(Namespace).list().items)
        script = render(rules)
        if script != loaded:
            await load(script)
            loaded = script
            _LOG.info("network policies loaded", extra={"node": node, "pods": len(rules)})
        return Result.done()

    def always(_: object) -> list[ObjectKey]:
        return [table]

    builder = manager.controller(name="network-policies")
    for kind in (NetworkPolicy, Pod, Namespace):
        builder.watches(kind, always)
    builder.reconcile_keys(reconcile)
