"""Discovery: from a group and a kind, or a plural, to the resource that the server serves."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from gpuruntime.aio.singleflight import Singleflight
from gpuruntime.kube.discovery_documents import aggregated_kinds, group_versions, resource_kinds
from gpuruntime.kube.errors import NotFoundError, ServerError, Status, UnavailableError
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta.identity import ResourceKind

__all__ = ["Discovery"]

log = logging.getLogger(__name__)

# Servers before 1.30 know only the beta, servers before 1.26 neither: they return the legacy documents.
_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)


class Discovery:
    """The kinds of a server, cached after the first request.

    A miss refreshes the cache, at most once in `interval` seconds for all callers, so that a custom kind is found once
    its CRD is installed. A kind that was removed stays cached until `forget` is called.
    """

    def __init__(self, transport: Wire, *, interval: float = 1.0) -> None:
        self._transport = transport
        self._interval = interval
        self._kinds: tuple[ResourceKind, ...] = ()
        self._next_load = float("-inf")
        self._loading = Singleflight(self._load)

    async def kind_of(self, group: str, kind: str, version: str | None = None) -> ResourceKind:
        """The kind, in the preferred version of the server if none is given.

        Raises:
            NotFoundError: the server does not serve such a kind.
            KubeError: discovery failed.
        """
        return await self._find(
            lambda known: known.kind == kind and known.group == group and version in {None, known.version},
            f"kind {kind} in group {group or 'core'}, version {version or 'any'}",
        )

    async def kind_of_plural(self, group: str, plural: str, version: str | None = None) -> ResourceKind:
        """The kind with a plural name such as "deployments"."""
        return await self._find(
            lambda known: known.plural == plural and known.group == group and version in {None, known.version},
            f"resource {plural} in group {group or 'core'}, version {version or 'any'}",
        )

    def forget(self, kind: ResourceKind) -> None:
        """Drop the kind, in all its versions, from the cache. Call it when its path raised NotFoundError."""
        gone = (kind.group, kind.kind)
        self._kinds = tuple(known for known in self._kinds if (known.group, known.kind) != gone)

    async def _find(self, matches: Callable[[ResourceKind], bool], wanted: str) -> ResourceKind:
        found = next(filter(matches, self._kinds), None)
        if found is None:
            await self._loading.do()
            found = next(filter(matches, self._kinds), None)
        if found is None:
            message = f"the server does not serve {wanted}; install its CRD"
            raise NotFoundError(Status(404, "NotFound", message))
        return found

    async def _load(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._next_load - loop.time()))
        self._next_load = loop.time() + self._interval
        self._kinds = (*await self._kinds_of("/api"), *await self._kinds_of("/apis"))

    async def _kinds_of(self, root: str) -> list[ResourceKind]:
        document = await self._document(root, _AGGREGATED)
        if document.get("kind") == "APIGroupDiscoveryList":
            return list(aggregated_kinds(document))
        found: list[ResourceKind] = []
        for group, version in _served(document):
            path = f"{root}/{group}/{version}" if group else f"{root}/{version}"
            try:
                found += resource_kinds(group, version, await self._document(path, "application/json"))
            except (NotFoundError, ServerError, UnavailableError) as error:
                # The aggregated API server of the group is down, or the group is being removed.
                log.warning("discovery skipped an API group", extra={"path": path, "error": str(error)})
        return found

    async def _document(self, path: str, accept: str) -> dict[str, Any]:
        return (await self._transport.send(Request("GET", path, accept=accept))).json_object()


def _served(document: dict[str, Any]) -> list[tuple[str, str]]:
    versions = document.get("versions")
    if isinstance(versions, list):
        return [("", version) for version in versions if isinstance(version, str)]
    return list(group_versions(document))
