"""The part that knows Kubernetes: notes are ConfigMaps with a label, and a controller counts their words."""

import asyncio
from collections.abc import Sequence

from attrs import frozen

from gpuruntime.control import Context, Manager, ManagerOptions, Result, Store
from gpuruntime.kube import Client, Credentials
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import FrozenDict, ObjectMeta

__all__ = ["NoteBoard", "Notes"]

_NAME = "notes"
_LABEL = FrozenDict({"example.org/note": "yes"})


@frozen
class Notes:
    """The notes of a namespace: read from the cache, written to the server."""

    namespace: str
    store: Store[ConfigMap]
    client: Client

    def all(self) -> Sequence[ConfigMap]:
        return self.store.list(self.namespace).items

    async def add(self, name: str, text: str) -> None:
        """Create a note.

        Raises:
            AlreadyExistsError: there is one of this name.
            KubeError: the server cannot be reached, or does not want it.
        """
        meta = ObjectMeta(name=name, namespace=self.namespace, labels=_LABEL)
        await self.client.create(ConfigMap(meta, data=FrozenDict(text=text)))


class NoteBoard:
    """A manager as a guest in the event loop of an application, which starts and stops it."""

    def __init__(self, credentials: Credentials, namespace: str) -> None:
        self._manager = Manager(credentials, ManagerOptions(_NAME))
        notes = self._manager.cache.informer(ConfigMap, namespaces=[namespace], labels="example.org/note=yes")
        self._manager.controller(notes, name=_NAME).reconcile(count_words)
        self._task: asyncio.Task[None] | None = None
        self.notes = Notes(namespace, notes.store, self._manager.client)

    @property
    def runs(self) -> bool:
        """Whether the cache follows the server. It does not after `stop`, nor after a failure."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin to follow the cluster, which need not be there yet."""
        self._task = asyncio.create_task(self._manager.run(), name="note board")

    async def stop(self) -> None:
        """Stop in order; raises what the manager failed with, if it did."""
        self._manager.stop()
        if self._task is not None:
            await self._task


async def count_words(note: ConfigMap, ctx: Context) -> Result:
    words = len(note.data.get("text", "").split())
    meta = ObjectMeta(name=note.metadata.name, namespace=note.metadata.namespace)
    # Server-side apply: the text belongs to its author, the number of words to us.
    await ctx.writer.ensure(ConfigMap(meta, data=FrozenDict(words=str(words))), None, live=note, mode="apply")
    return Result.done()
