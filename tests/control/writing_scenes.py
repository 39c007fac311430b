"""A client whose writes can be identified in the audit log, and an owner for children."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from gpuruntime.control.writing.writer import Outcome, Writer
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.client import Client, connect
from gpuruntime.kube.errors import ConflictError
from gpuruntime.kube.forms import typed
from gpuruntime.meta.objects import KubeObject, ObjectMeta, TypedObject
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.cluster.audit import WRITE_VERBS, Recording

__all__ = ["MANAGER", "ensure_as_a_controller_does", "make_owner", "open_client", "our_writes"]

MANAGER = "tests.example.org"
W = TypeVar("W", bound=TypedObject)

_AGENT = "tests-of-writing"


@asynccontextmanager
async def open_client(access: ClusterAccess) -> AsyncIterator[Client]:
    async with connect(from_kubeconfig(access.kubeconfig), field_manager="tests", user_agent=_AGENT) as client:
        yield client


def our_writes(seen: Recording, namespace: str, name: str = "") -> list[tuple[str, str]]:
    """Verb and resource of the writes of the client, in a namespace or to one object of it."""
    ours = [request for request in seen.requests if request.user_agent == _AGENT and request.namespace == namespace]
    return [
        (request.verb, request.resource)
        for request in ours
        if request.verb in WRITE_VERBS and name in {"", request.name}
    ]


async def make_owner(client: Client, namespace: str, name: str = "owner") -> ConfigMap:
    return await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace)))


async def ensure_as_a_controller_does(
    client: Client, desired: W, owner: KubeObject | None, *, adopt: bool = False
) -> Outcome[W]:
    """Read and write; after a conflict, once more from the start."""
    writer, form = Writer(client, field_manager=MANAGER), typed(type(desired))
    while True:
        live = await client.get(form, desired.key.name, desired.key.namespace)
        try:
            return await writer.ensure(desired, owner, live=live, adopt=adopt)
        except ConflictError:
            continue
