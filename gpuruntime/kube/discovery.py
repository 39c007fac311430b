"""Which kinds the server has: from a group and a kind to the path of its objects."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from gpuruntime.kube.discovery_documents import aggregated_kinds, group_versions, resource_kinds
from gpuruntime.kube.errors import NotFoundError, ServerError, Status, UnavailableError
from gpuruntime.kube.singleflight import Singleflight
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta.identity import ResourceKind

__all__ = ["Discovery"]

log = logging.getLogger(__name__)

# Servers before 1.30 know the beta only, those before 1.26 neither, and answer with the documents of old.
_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)


class Discovery:
    """The kinds of a server, asked for when first needed and remembered.

    A kind that is not remembered is looked for anew, at most once in `interval` seconds for all who ask, so that a
    custom kind is found once its definition is there. A kind that is gone is remembered until somebody calls
    `forget`.
    """

    def __init__(self, transport: Wire, *, interval: float = 1.0) -> None:
        self._transport = transport
        self._interval = interval
        self._kinds: tuple[ResourceKind, ...] = ()
        self._next_load = float("-inf")
        self._loading = Singleflight(self._load)

    async def kind_of(self, group: str, kind: str, version: str | None = None) -> ResourceKind:
        """The kind, in the version that the server prefers if none is given.

        Raises:
            NotFoundError: the server has no such kind now.
            KubeError: the server could not be asked.
        """
        return await self._find(
            lambda known: known.kind == kind and known.group == group and version in {None, known.version},
            f"kind {kind} in group {group or 'core'}, version {version or 'any'}",
        )

    async def kind_of_plural(self, group: str, plural: str, version: str | None = None) -> ResourceKind:
        """The same for the plural name of a kind, as in "deployments"."""
        return await self._find(
            lambda known: known.plural == plural and known.group == group and version in {None, known.version},
            f"resource {plural} in group {group or 'core'}, version {version or 'any'}",
        )

    def forget(self, kind: ResourceKind) -> None:
        """Look for the kind anew, in all its versions, when it is asked for again.

        Call it when the path of the kind gave NotFoundError.
        """
        gone = (kind.group, kind.kind)
        self._kinds = tuple(known for known in self._kinds if (known.group, known.kind) != gone)

    async def _find(self, matches: Callable[[ResourceKind], bool], wanted: str) -> ResourceKind:
        found = next(filter(matches, self._kinds), None)
        if found is None:
            await self._loading.join()
            found = next(filter(matches, self._kinds), None)
        if found is None:
            message = f"the server has no {wanted}; is its definition installed?"
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
                # The server behind an extension is down, or the group is just being removed.
                log.warning("an api group was skipped in discovery", extra={"path": path, "error": str(error)})
        return found

    async def _document(self, path: str, accept: str) -> dict[str, Any]:
        return (await self._transport.send(Request("GET", path, accept=accept))).json_object()


def _served(document: dict[str, Any]) -> list[tuple[str, str]]:
    versions = document.get("versions")
    if isinstance(versions, list):
        return [("", version) for version in versions if isinstance(version, str)]
    return list(group_versions(document))
