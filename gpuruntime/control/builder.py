"""The builder: a controller from what it is for, what it owns, what else it watches and reads, and its reconciler.

::

    manager.controller(Website).owns(ConfigMap, Deployment, Service).updates_status().reconcile(reconcile)

From these words follow the informers and their indexes, the watches, the permissions, the writer and its field manager,
and what the context of each run may do.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar, cast, get_args

from attrs import define, field, fields_dict, frozen

from gpuruntime.control.controllers.context import ChildKind, Context, ControllerScope, kind_of
from gpuruntime.control.controllers.controller import Controller, ControllerOptions
from gpuruntime.control.controllers.predicates import Predicate
from gpuruntime.control.controllers.reconcile import Reconciler, Result, RunInfo
from gpuruntime.control.controllers.sources import Source, Timer, Watch
from gpuruntime.control.controllers.triggers import Trigger, enqueue_mapped, enqueue_object, enqueue_owner
from gpuruntime.control.controllers.usage import (
    check_awaitable,
    check_limits,
    check_run,
    check_source,
    check_takes_change,
)
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.control.informers.cache import Cache, storage_of
from gpuruntime.control.informers.indexes import Index, by_controller
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import OfForm, Storage
from gpuruntime.control.permissions.declarations import (
    Declaration,
    allow,
    allow_children,
    allow_events,
    allow_finalizers,
    allow_status,
)
from gpuruntime.control.writing.finalizers import add_finalizer, remove_finalizer
from gpuruntime.control.writing.writer import Mode, Writer
from gpuruntime.kube.client import Client
from gpuruntime.kube.forms import Form, class_of, dynamic
from gpuruntime.meta.field_selectors import FieldSelector
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.label_selectors import Selector
from gpuruntime.meta.names import is_qualified_name

__all__ = ["ControllerBuilder", "ControllerHost", "Watched"]

T = TypeVar("T")
S = TypeVar("S")
Watched = type[T] | Form[T] | Storage[T] | Informer[T]
"""A kind to watch: a typed class, a form, a storage that says how to keep it, or an informer of the manager's cache."""


class ControllerHost(Protocol):
    """What a builder needs of a manager."""

    cache: Cache
    client: Client
    recorder: Recorder

    def add_controller(
        self,
        name: str,
        reconciler: Reconciler[ObjectKey],
        sources: Sequence[Source[ObjectKey]],
        options: ControllerOptions | None = None,
        *,
        reads: Sequence[Informer[Any]] = (),
    ) -> Controller[ObjectKey]: ...

    def declare(self, *declarations: Declaration) -> None: ...


@frozen
class _Finalizer(Generic[T]):
    """What must happen before an object may go."""

    name: str
    cleanup: Callable[[T, Context], Awaitable[None]]


@define
class _Kind:
    """One kind that a controller watches or reads, until its informer is asked for."""

    what: Any
    storage: Storage[Any]
    namespaces: tuple[str, ...]
    labels: str | Selector
    fields: str | FieldSelector
    indexes: list[Index] = field(factory=list)

    @property
    def kind(self) -> ResourceKind:
        return self.storage.kind

    @property
    def scope(self) -> tuple[Any, ...]:
        return self.storage, self.namespaces, str(self.labels), str(self.fields)

    def informer(self, cache: Cache) -> Informer[Any]:
        if isinstance(self.what, Informer):
            names = self.what.index_names
            self.what.add_indexes([index for index in self.indexes if index.name not in names])
            return self.what
        return cache.informer(
            self.storage, namespaces=self.namespaces, labels=self.labels, fields=self.fields, indexes=self.indexes
        )


class ControllerBuilder(Generic[T]):
    """Puts one controller together; `reconcile` or `reconcile_keys` completes it.

    Each kind is named once, and what follows from that is derived. A mistake is refused by the call that makes it; a
    builder that is not completed is refused by `Manager.run`.

    `namespaces`, `labels` and `fields` of a kind limit its cache, on the server; `indexes` are for `ctx.store(Kind)`,
    `when` is a predicate that a change must pass to enqueue anything. Kinds are watched in the namespaces of the
    controller unless they say otherwise; `()` is everywhere.
    """

    def __init__(
        self,
        host: ControllerHost,
        what: Watched[T] | None,
        *,
        name: str = "",
        namespaces: Sequence[str] = (),
        labels: str | Selector = "",
        fields: str | FieldSelector = "",
        indexes: Sequence[Index] = (),
        when: Predicate | None = None,
        options: ControllerOptions | None = None,
        field_manager: str,
    ) -> None:
        """See `Manager.controller`."""
        self._host = host
        self._options = options
        self._kinds: dict[ResourceKind, _Kind] = {}
        self._watches: list[tuple[ResourceKind, Trigger[ObjectKey], Predicate | None]] = []
        self._children: dict[ResourceKind, ChildKind] = {}
        self._sources: list[Source[ObjectKey]] = []
        self._declarations: list[Declaration] = []
        self._finalizer: _Finalizer[T] | None = None
        self._resync_seconds = 0.0
        self._updates_status = self._records_events = False
        self.is_complete = False
        self._writer = Writer(host.client, field_manager=field_manager)
        self._primary: _Kind | None = None
        self.name = name
        check_limits("manager.controller", namespaces, labels, fields)
        if options is not None and not isinstance(options, ControllerOptions):
            raise TypeError(f"manager.controller: expected options=ControllerOptions(...), got {options!r}")
        if what is None:
            if not name:
                raise ValueError("expected a kind or a name: manager.controller(Website), or name='website'")
            self._namespaces = tuple(namespaces)
            return
        self.name = name or kind_of(what).kind.lower()
        self._namespaces = what.scope.namespaces if isinstance(what, Informer) else tuple(namespaces)
        # Of a cluster-scoped kind, the namespaces are those of its children.
        own = namespaces if isinstance(what, Informer) else None
        self._primary = self._add(what, own, labels, fields, indexes)
        self._watch(self._primary, enqueue_object(), when)

    def owns(
        self,
        *kinds: Watched[Any],
        mode: Mode = "replace",
        deletes: bool = False,
        namespaces: Sequence[str] | None = None,
        labels: str | Selector = "",
        fields: str | FieldSelector = "",
        indexes: Sequence[Index] = (),
        when: Predicate | None = None,
        trigger: Trigger[ObjectKey] | None = None,
        permissions: Sequence[Declaration] | None = None,
    ) -> Self:
        """Watch kinds, and enqueue the object that is the controller owner of what changed. The reconciler may
        `ctx.apply` objects of them, `ctx.delete` them with `deletes`, and list its own with `ctx.owned`.

        `mode` is that of `Writer.ensure`: "replace" for children that are wholly ours, "apply" for server-side apply.
        `trigger` finds the owner by something else than owner references. `permissions` replace those that follow:
        create, update and get, and with `deletes` delete, wherever the kind is watched.

        Raises:
            ValueError: the controller has no kind of its own; a kind is owned twice, is declared in another form or
                scope already, is kept in a form that cannot be written, or cannot have an owner of the controller's
                kind: it is cluster-scoped or in other namespaces, and the owner is namespaced.
        """
        primary = self._required("owns")
        if mode not in get_args(Mode):
            raise ValueError(f"controller {self.name!r}: expected mode='replace' or mode='apply', got {mode!r}")
        for what in kinds:
            # An informer that is given has the indexes that its creator wants to pay for.
            found_by = () if isinstance(what, Informer) else (by_controller(),)
            child = self._add(what, namespaces, labels, fields, [*indexes, *found_by])
            self._check_whole(child)
            self._check_ownable(child, primary)
            if child.kind in self._children:
                raise ValueError(f"controller {self.name!r} owns {child.kind.kind} twice: name it in one .owns(...)")
            self._watch(child, trigger or enqueue_owner(primary.kind), when)
            self._children[child.kind] = ChildKind(mode, deletes)
            if permissions is None:
                self._declarations.append(
                    allow_children(child.kind, of=primary.kind, mode=mode, namespaces=_namespaces_of(child))
                )
                if deletes:
                    self._declarations.append(allow(child.kind, "delete", namespaces=_namespaces_of(child)))
        self._declarations += permissions or ()
        return self

    def watches(
        self,
        kind: Watched[S],
        mapper: Callable[[S], Iterable[ObjectKey]] | None = None,
        *,
        trigger: Trigger[ObjectKey] | None = None,
        namespaces: Sequence[str] | None = None,
        labels: str | Selector = "",
        fields: str | FieldSelector = "",
        indexes: Sequence[Index] = (),
        when: Predicate | None = None,
    ) -> Self:
        """Watch a kind, and enqueue the keys that `mapper` returns for an object of it: it is called with the state
        before a change and with the state after it. `trigger` is called with the whole change instead.

        Raises:
            TypeError: neither a mapper nor a trigger, both, or one that is no plain function.
            ValueError: the kind is declared in another form or scope already.
        """
        if (mapper is None) == (trigger is None):
            raise TypeError(
                f"controller {self.name!r}: .watches needs a function from an object to the keys that it concerns,"
                " or trigger=; to read a kind without being triggered by it, use .reads"
            )
        if mapper is not None:
            check_takes_change([mapper], "mapper")
        watched = self._add(kind, namespaces, labels, fields, indexes)
        self._watch(
            watched, enqueue_mapped(mapper) if mapper is not None else cast("Trigger[ObjectKey]", trigger), when
        )
        return self

    def reads(
        self,
        *kinds: Watched[Any],
        namespaces: Sequence[str] | None = None,
        labels: str | Selector = "",
        fields: str | FieldSelector = "",
        indexes: Sequence[Index] = (),
    ) -> Self:
        """Keep kinds in the cache, complete before the first run, without enqueueing anything when they change.

        Raises:
            ValueError: a kind is declared in another form or scope already.
        """
        for what in kinds:
            self._add(what, namespaces, labels, fields, indexes)
        return self

    def updates_status(self) -> Self:
        """Let the reconciler `ctx.update_status`.

        Raises:
            ValueError: the controller has no kind of its own, or one without a status.
        """
        primary = self._required("updates_status")
        cls = class_of(primary.storage.form) if isinstance(primary.storage, OfForm) else None
        if cls is not None and "status" not in fields_dict(cls):
            raise ValueError(
                f"controller {self.name!r}: {cls.__qualname__} has no field `status` to update: add one to the class,"
                " or leave out .updates_status()"
            )
        self._updates_status = True
        self._declarations.append(allow_status(primary.kind, namespaces=_namespaces_of(primary)))
        return self

    def records_events(self) -> Self:
        """Let the reconciler `ctx.record` events about its objects.

        Raises:
            ValueError: the controller has no kind of its own.
        """
        primary = self._required("records_events")
        self._records_events = True
        self._declarations.append(allow_events(primary.kind))
        return self

    def finalizer(self, name: str, cleanup: Callable[[T, Context], Awaitable[None]]) -> Self:
        """Put a finalizer on every object before it is reconciled, and run `cleanup` before it may go.

        Guarantees: the reconciler runs only while the finalizer is on the object; the finalizer is removed only after
        `cleanup` has returned. It may run again after that, if the removal fails: make it safe to repeat.

        Raises:
            TypeError: `cleanup` is no function of an object and a context.
            ValueError: the controller has no kind of its own or a finalizer already, or the name is invalid.
        """
        primary = self._required("finalizer")
        check_run(cleanup, f"the cleanup of controller {self.name!r}", ("object", "ctx"))
        if "/" not in name or not is_qualified_name(name):
            raise ValueError(
                f"controller {self.name!r}: expected a finalizer such as 'example.org/bucket', a DNS name, a slash and"
                f" a word, got {name!r}"
            )
        if self._finalizer is not None:
            raise ValueError(
                f"controller {self.name!r} has the finalizer {self._finalizer.name!r} already: use one cleanup for both"
            )
        self._finalizer = _Finalizer(name, cleanup)
        self._declarations.append(allow_finalizers(primary.kind, namespaces=_namespaces_of(primary)))
        return self

    def source(self, *sources: Source[ObjectKey]) -> Self:
        """Enqueue what further sources name: a `Channel`, a `Timer`, one of your own.

        Raises:
            TypeError: one is no source.
        """
        self._open()
        for source in sources:
            check_source(source)
        self._sources += sources
        return self

    def resync(self, seconds: float) -> Self:
        """Enqueue every object of the controller's kind each time these seconds have passed, at low priority.

        Raises:
            ValueError: the controller has no kind of its own, or not a positive number.
        """
        self._required("resync")
        given: object = seconds
        if not (isinstance(given, int | float) and given > 0):
            raise ValueError(f"controller {self.name!r}: expected seconds above 0 for .resync, got {seconds!r}")
        self._resync_seconds = seconds
        return self

    def permissions(self, *declarations: Declaration) -> Self:
        """Declare what the reconciler does beyond its context, such as `allow(Secret, "get")` for `ctx.client.get`.

        Raises:
            TypeError: one is no declaration.
        """
        self._open()
        for declaration in declarations:
            if not isinstance(declaration, Declaration):
                raise TypeError(
                    f'controller {self.name!r}: expected declarations such as allow(Secret, "get"), got {declaration!r}'
                )
        self._declarations += declarations
        return self

    def reconcile(self, function: Callable[[T, Context], Awaitable[Result]]) -> Controller[ObjectKey]:
        """Complete the controller with an async function of an object and a context.

        It is called for objects that exist and are not being deleted: children with an owner go with it, and what else
        must happen is the cleanup of a `finalizer`.

        Raises:
            TypeError: no function of an object and a context, or a kind that is kept as a projection.
            ValueError: the controller has no kind of its own, or there is a controller of this name.
        """
        primary = self._required("reconcile")
        check_run(function, f"controller {self.name!r}", ("object", "ctx"))
        if not isinstance(primary.storage, OfForm):
            raise TypeError(
                f"controller {self.name!r}: {primary.kind.kind} is kept as a projection, which .reconcile cannot use:"
                " use .reconcile_keys, or keep whole objects"
            )
        scope, informers = self._scope()
        store = informers[primary.kind].store
        return self._complete(_OfObjects(scope, store, function, self._finalizer), informers)

    def reconcile_keys(self, function: Callable[[ObjectKey, Context], Awaitable[Result]]) -> Controller[ObjectKey]:
        """Complete the controller with an async function of a key and a context: for reconcilers that must see that an
        object is gone or being deleted. It reads the object itself, and calls `ctx.of(obj)` to write for it.

        Raises:
            TypeError: no function of a key and a context.
            ValueError: a finalizer is declared, or there is a controller of this name.
        """
        check_run(function, f"controller {self.name!r}", ("key", "ctx"))
        if self._finalizer is not None:
            raise ValueError(
                f"controller {self.name!r}: .finalizer is for .reconcile; a reconciler of keys uses with_finalizer"
            )
        scope, informers = self._scope()
        return self._complete(_OfKeys(scope, function), informers)

    def _scope(self) -> tuple[ControllerScope, dict[ResourceKind, Informer[Any]]]:
        self._open()
        host = self._host
        informers = {kind: known.informer(host.cache) for kind, known in self._kinds.items()}
        scope = ControllerScope(
            name=self.name,
            kind=None if self._primary is None else self._primary.kind,
            client=host.client,
            writer=self._writer,
            recorder=host.recorder,
            informers=informers,
            children=self._children,
            updates_status=self._updates_status,
            records_events=self._records_events,
        )
        return scope, informers

    def _complete(
        self, reconciler: Reconciler[ObjectKey], informers: dict[ResourceKind, Informer[Any]]
    ) -> Controller[ObjectKey]:
        sources: list[Source[ObjectKey]] = [
            Watch(informers[kind], trigger, [] if when is None else [when]) for kind, trigger, when in self._watches
        ]
        sources += self._sources
        if self._resync_seconds and self._primary is not None:
            informer = informers[self._primary.kind]
            sources.append(Timer(self._resync_seconds, lambda: informer.store, "resync", (informer,)))
        controller = self._host.add_controller(
            self.name, reconciler, sources, self._options, reads=tuple(informers.values())
        )
        self._host.declare(*self._declarations)
        self.is_complete = True
        return controller

    def _add(
        self,
        what: Any,
        namespaces: Sequence[str] | None,
        labels: str | Selector,
        fields: str | FieldSelector,
        indexes: Iterable[Index],
    ) -> _Kind:
        self._open()
        kind, wanted = kind_of(what), list(indexes)
        who = f"controller {self.name!r}"
        check_limits(who, namespaces, labels, fields)
        if isinstance(what, Informer):
            if not any(what is known for known in self._host.cache.informers):
                raise ValueError(
                    f"{who}: the informer of {kind.kind} belongs to another manager, which runs it: ask for it with"
                    " manager.cache.informer(...) of this one"
                )
            if namespaces or labels or fields:
                raise ValueError(
                    f"{who}: the informer of {kind.kind} has namespaces and selectors already:"
                    " set them where it is asked for"
                )
            storage: Storage[Any] = what.scope.storage
            spaces, labels, fields = what.scope.namespaces, what.scope.labels, what.scope.fields
        else:
            storage = storage_of(what)
            inherited = self._namespaces if kind.namespaced else ()
            spaces = tuple(sorted(set(inherited if namespaces is None else namespaces)))
        added = _Kind(what, storage, spaces, labels, fields, wanted)
        known = self._kinds.setdefault(kind, added)
        if known is not added:
            if known.storage != added.storage:
                raise ValueError(
                    f"{who} keeps {kind.kind} in two forms: pass the same class, form or storage each time"
                )
            if known.scope != added.scope:
                raise ValueError(
                    f"{who} watches {kind.kind} in two scopes: give it the same namespaces and"
                    " selectors each time, or select in a predicate (when=)"
                )
            known.indexes += wanted
        return known

    def _watch(self, kind: _Kind, trigger: Trigger[ObjectKey], when: Predicate | None) -> None:
        check_takes_change([trigger], "trigger")
        check_takes_change([] if when is None else [when], "predicate")
        self._watches.append((kind.kind, trigger, when))

    def _open(self) -> None:
        if self.is_complete:
            raise RuntimeError(f"controller {self.name!r} is complete: say everything before .reconcile(...)")

    def _required(self, call: str) -> _Kind:
        self._open()
        if self._primary is None:
            raise ValueError(
                f"controller {self.name!r} has no kind of its own, and .{call} needs one: manager.controller(Kind)"
            )
        return self._primary

    def _check_ownable(self, child: _Kind, primary: _Kind) -> None:
        if not primary.kind.namespaced:
            return
        owner, kind, elsewhere = primary.kind.kind, child.kind.kind, ""
        if not child.kind.namespaced:
            elsewhere = "is cluster-scoped"
        elif child.namespaces and primary.namespaces and not set(child.namespaces) & set(primary.namespaces):
            elsewhere = f"is in other namespaces ({', '.join(child.namespaces)})"
        if elsewhere:
            raise ValueError(
                f"controller {self.name!r}: a {owner} cannot own a {kind} that {elsewhere}, because Kubernetes looks"
                f" for a namespaced owner in the namespace of its child: use .watches({kind}, ...) or .reads({kind}),"
                " ctx.writer.ensure(desired, None, live=...) and a finalizer"
            )

    def _check_whole(self, child: _Kind) -> None:
        storage, kind = child.storage, child.kind
        is_whole = isinstance(storage, OfForm) and (class_of(storage.form) is not None or storage.form == dynamic(kind))
        if not is_whole:
            raise ValueError(
                f"controller {self.name!r} cannot write {kind.kind} that it keeps as {storage!r}: .owns needs whole"
                f" objects; to watch only, use .watches(..., trigger=enqueue_owner(...))"
            )


@frozen
class _OfObjects(Generic[T]):
    scope: ControllerScope
    store: Any
    function: Callable[[T, Context], Awaitable[Result]]
    finalizer: _Finalizer[T] | None

    async def reconcile(self, key: ObjectKey, info: RunInfo) -> Result:
        obj = self.store.get(key)
        if obj is None:
            return Result.done()
        is_going = obj.metadata.deletion_timestamp is not None
        if is_going:
            return await self._clean_up(obj, key, info)
        if self.finalizer is not None:
            obj = await add_finalizer(self.scope.client, obj, self.finalizer.name)
        return await _run(self.function, obj, Context(self.scope, key, info, obj))

    async def _clean_up(self, obj: Any, key: ObjectKey, info: RunInfo) -> Result:
        finalizer = self.finalizer
        if finalizer is not None and finalizer.name in obj.metadata.finalizers:
            ctx = Context(self.scope, key, info, obj)
            await _run(finalizer.cleanup, obj, ctx)
            await remove_finalizer(self.scope.client, ctx.object, finalizer.name)
        return Result.done()


@frozen
class _OfKeys:
    scope: ControllerScope
    function: Callable[[ObjectKey, Context], Awaitable[Result]]

    async def reconcile(self, key: ObjectKey, info: RunInfo) -> Result:
        return await _run(self.function, key, Context(self.scope, key, info))


async def _run(function: Callable[[S, Context], Awaitable[T]], what: S, ctx: Context) -> T:
    try:
        run = function(what, ctx)
        check_awaitable(run, function)
        return await run
    finally:
        ctx.end()


def _namespaces_of(kind: _Kind) -> tuple[str, ...] | None:
    return kind.namespaces if kind.kind.namespaced else None
