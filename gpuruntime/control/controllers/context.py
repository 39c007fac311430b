"""What a reconciler works with: reads from caches, writes of children, status and events, within what was declared."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from attrs import define, evolve, field, frozen

from gpuruntime.control.controllers.reconcile import Cause, RunInfo, UndeclaredError
from gpuruntime.control.controllers.visibility import is_selected
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.control.events.series import EventType
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import OfForm, Storage
from gpuruntime.control.informers.store import Store
from gpuruntime.control.writing.status import write_status
from gpuruntime.control.writing.writer import Mode, Outcome, Writer
from gpuruntime.kube.client import Client
from gpuruntime.kube.forms import Form, as_form, class_of
from gpuruntime.meta.codec import encode
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.frozen_mapping import freeze
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import KubeObject, ObjectMeta, TypedObject
from gpuruntime.meta.structs import Struct

__all__ = ["ChildKind", "Context", "ControllerScope", "kind_of"]

T = TypeVar("T")
W = TypeVar("W", bound=TypedObject | DynamicObject)
_BY_CONTROLLER: Final = "controller"


@frozen
class ChildKind:
    """How a controller writes the children of one kind, and whether it may delete them."""

    mode: Mode
    deletes: bool


def kind_of(what: Any) -> ResourceKind:
    """The kind of a typed class, a form, a storage or an informer.

    Raises:
        TypeError: anything else.
    """
    if isinstance(what, Informer):
        return what.scope.storage.kind
    if isinstance(what, type):
        return as_form(what).kind
    kind = getattr(what, "kind", None)
    if not isinstance(kind, ResourceKind) or not (hasattr(what, "keep") or hasattr(what, "decode")):
        hint = ": pass kinds one after the other, without a list" if isinstance(what, list | tuple | set) else ""
        raise TypeError(f"expected a typed class, a form, a storage or an informer, got {what!r}{hint}")
    return kind


@frozen(eq=False)
class ControllerScope:
    """What one controller declared, and the tools with which its reconciler acts within that."""

    name: str
    kind: ResourceKind | None
    client: Client
    writer: Writer
    recorder: Recorder
    informers: Mapping[ResourceKind, Informer[Any]]
    children: Mapping[ResourceKind, ChildKind] = field(factory=dict)
    updates_status: bool = False
    records_events: bool = False
    # What was looked up before: each run asks for the same kinds.
    _stores: dict[Any, Store[Any]] = field(factory=dict, init=False, repr=False)
    _typed_children: dict[type, tuple[ChildKind, Informer[Any]]] = field(factory=dict, init=False, repr=False)

    def store(self, what: type[T] | Form[T] | Storage[T] | Informer[T]) -> Store[T]:
        """The store of a declared kind.

        Raises:
            UndeclaredError: the kind is not declared, or in another form.
        """
        known = self._stores.get(what)
        if known is None:
            known = self._stores[what] = self._found(what).store
        return known

    def _found(self, what: Any) -> Informer[Any]:
        kind = kind_of(what)
        informer = self.informers.get(kind)
        if informer is None:
            raise UndeclaredError(f"{kind.kind} is not read by controller {self.name!r}: add .reads({kind.kind})")
        storage = informer.scope.storage
        if what is informer or what == storage:
            return informer
        if isinstance(storage, OfForm) and not hasattr(what, "keep") and as_form(what) == storage.form:
            return informer
        raise UndeclaredError(
            f"controller {self.name!r} keeps {kind.kind} in another form, {storage!r}: pass what its builder was given"
        )

    def child(self, obj: TypedObject | DynamicObject) -> tuple[ChildKind, Informer[Any]]:
        """How to write an object, and the informer that shows it.

        Raises:
            UndeclaredError: the kind is not owned, or the informer would not show the object.
        """
        known = self._typed_children.get(type(obj))
        if known is None:
            known = self._found_child(obj)
            if isinstance(obj, TypedObject):
                self._typed_children[type(obj)] = known
        scope = known[1].scope
        if scope.namespaces or scope.labels.requirements or scope.fields.terms:
            self._check_shown(obj, known[1])
        return known

    def _found_child(self, obj: TypedObject | DynamicObject) -> tuple[ChildKind, Informer[Any]]:
        kind = obj.kind
        child = self.children.get(kind)
        if child is None:
            raise UndeclaredError(f"{kind.kind} is not owned by controller {self.name!r}: add .owns({kind.kind})")
        informer = self.informers[kind]
        self._check_form(obj, informer)
        return child, informer

    def _check_form(self, obj: TypedObject | DynamicObject, informer: Informer[Any]) -> None:
        storage = informer.scope.storage
        expected = class_of(storage.form) if isinstance(storage, OfForm) else None
        if type(obj) is not (expected or DynamicObject):
            wanted = (expected or DynamicObject).__qualname__
            raise UndeclaredError(
                f"controller {self.name!r} owns {obj.kind.kind} as {wanted}, got a {type(obj).__qualname__}:"
                " apply what was given to .owns"
            )

    def _check_shown(self, obj: TypedObject | DynamicObject, informer: Informer[Any]) -> None:
        scope, meta = informer.scope, obj.metadata
        if scope.namespaces and obj.kind.namespaced and meta.namespace not in scope.namespaces:
            raise UndeclaredError(
                f"{obj.kind.kind} {obj.key} is outside of the namespaces of controller {self.name!r}"
                f" ({', '.join(scope.namespaces)}): add its namespace to .owns({obj.kind.kind}, namespaces=...)"
            )
        if is_selected(scope, obj.key, meta.labels) is False:
            chosen = " and ".join(text for text in (str(scope.labels), str(scope.fields)) if text)
            raise UndeclaredError(
                f"{obj.kind.kind} {obj.key} does not match {chosen!r}, which .owns({obj.kind.kind}) of controller"
                f" {self.name!r} selects: it would never be seen again; give it what is selected"
            )


@define
class _Run:
    """What the contexts of one run share."""

    is_over: bool = False


class Context:
    """One run of a reconciler: the object, the declared caches, and writes that need no owner, field manager or live
    object to be repeated.

    Guarantees:
        - What the controller does not declare is refused with `UndeclaredError`, wherever the process runs and whatever
          its credentials allow.
        - Reads come from caches that were complete before the first run, and show what the last run of this key wrote.
        - A second run for an unchanged object makes no write.
        - Nothing is written after the run: a task that outlives it would write beside the next run of the key.

    `causes`, `attempt` and the times are for logs and figures, never for decisions: causes are merged, may be lost in a
    restart, and never say all that happened.
    """

    __slots__ = ("_info", "_object", "_run", "_scope", "key")

    def __init__(self, scope: ControllerScope, key: ObjectKey, info: RunInfo, obj: Any = None) -> None:
        self.key = key
        self._run = _Run()
        self._scope = scope
        self._info = info
        self._object = obj

    def of(self, obj: KubeObject) -> "Context":
        """This context with `obj` as the object that is reconciled: reconcilers of keys read it themselves."""
        context = Context(self._scope, self.key, self._info, obj)
        context._run = self._run
        return context

    def end(self) -> None:
        """Refuse further writes, also of contexts from `of`: the run is over."""
        self._run.is_over = True

    @property
    def object(self) -> Any:
        """The object that is reconciled, as this run last wrote it; None in a reconciler of keys."""
        return self._object

    @property
    def controller(self) -> str:
        return self._info.controller

    @property
    def reconcile_id(self) -> str:
        return self._info.reconcile_id

    @property
    def attempt(self) -> int:
        """1 for the first run, one more after each failure in a row."""
        return self._info.attempt

    @property
    def causes(self) -> tuple[Cause, ...]:
        return self._info.causes

    @property
    def waited(self) -> float:
        """Seconds in the queue."""
        return self._info.waited

    @property
    def age(self) -> float:
        """Seconds from the oldest cause to the start of the run."""
        return self._info.age

    @property
    def client(self) -> Client:
        """The manager's client, for requests beyond this context; declare them with `.permissions(allow(...))`."""
        return self._scope.client

    @property
    def writer(self) -> Writer:
        """The writer of this controller, for objects without an owner."""
        return self._scope.writer

    def store(self, what: type[T] | Form[T] | Storage[T] | Informer[T]) -> Store[T]:
        """The cache of a declared kind, to list from and to use indexes of.

        Raises:
            UndeclaredError: the kind is not declared, or in another form.
        """
        return self._scope.store(what)

    def get(self, what: type[T] | Form[T] | Storage[T], name: str, namespace: str | None = None) -> T | None:
        """An object of a declared kind from the cache, None if there is none.

        `namespace` is that of the object that is reconciled unless given.

        Raises:
            UndeclaredError: the kind is not declared, or in another form.
            QuarantinedError: the object is there, but cannot be read.
            ValueError: a namespace is needed and not known.
        """
        kind = kind_of(what)
        return self.store(what).get(ObjectKey(self._namespace(kind, namespace), name))

    def owned(self, what: type[T] | Form[T] | Storage[T]) -> tuple[T, ...]:
        """The objects of an owned kind whose controller owner is the object that is reconciled, in the order of keys.

        Raises:
            UndeclaredError: the kind is not owned.
        """
        kind, obj = kind_of(what), self._required("owned")
        if kind not in self._scope.children:
            raise UndeclaredError(
                f"{kind.kind} is not owned by controller {self._scope.name!r}: add .owns({kind.kind})"
            )
        if _BY_CONTROLLER not in self._scope.informers[kind].index_names:
            raise UndeclaredError(
                f"the informer of {kind.kind} that controller {self._scope.name!r} was given has no index of owners:"
                " add by_controller() where it is asked for"
            )
        return self.store(what).list(where={_BY_CONTROLLER: obj.metadata.uid}).items

    async def apply(self, child: W, *, adopt: bool = False, force: bool = False) -> Outcome[W]:
        """Create the child or bring it to this desired state, with the object that is reconciled as its controller
        owner.

        A child without a namespace gets that of its owner. See `Writer.ensure` for what is compared, what is written,
        `adopt`, `force` and further errors.

        Raises:
            UndeclaredError: the kind is not owned, its cache would not show the child, or the child is in another
                namespace than its owner.
            TypeError: no object.
            ValueError: a child without a namespace, of an owner without one.
            ForeignObjectError, StaleOwnerError, BeingDeletedError: it must not be touched; see there.
            ConflictError: the child changed since; raise it, the next run reads it again.
        """
        owner = self._required("apply")
        desired = self._placed(child, owner, "apply")
        kept, informer = self._scope.child(desired)
        live = informer.store.get(desired.key)
        return await self._scope.writer.ensure(desired, owner, live=live, mode=kept.mode, adopt=adopt, force=force)

    async def delete(self, child: TypedObject | DynamicObject) -> bool:
        """Delete a child of the object that is reconciled; returns whether a deletion was accepted.

        A child that is gone, or on its way out, is fine. One that was not read from a server is looked up in the cache.

        Raises:
            UndeclaredError: the kind is not owned with `deletes=True`.
            ForeignObjectError, StaleOwnerError: it is not a child of this object.
        """
        owner = self._required("delete")
        wanted = self._placed(child, owner, "delete")
        kept, informer = self._scope.child(wanted)
        if not kept.deletes:
            kind = child.kind.kind
            raise UndeclaredError(
                f"controller {self._scope.name!r} does not delete {kind}: change .owns({kind}) to"
                f" .owns({kind}, deletes=True)"
            )
        live = wanted if wanted.metadata.uid else informer.store.get(wanted.key)
        return live is not None and await self._scope.writer.remove(live, owner)

    async def update_status(self, status: Struct | Mapping[str, Any]) -> bool:
        """Write the status of the object that is reconciled if it differs; returns whether it did.

        Raises:
            UndeclaredError: the controller does not update statuses.
            ConflictError: the object changed since it was read; raise it, the next run reads it again.
            NotFoundError: the object is gone.
            TypeError: the kind has no status, or one of another type.
        """
        obj = self._required("update_status")
        if not self._scope.updates_status:
            raise UndeclaredError(
                f"controller {self._scope.name!r} does not update the status of {obj.kind.kind}: add .updates_status()"
            )
        written = await write_status(self._scope.client, obj, status)
        if written is None:
            return False
        self._object = written
        return True

    def record(
        self,
        type_: EventType,
        reason: str,
        note: str,
        *,
        action: str = "Reconcile",
        related: KubeObject | None = None,
    ) -> None:
        """Record an event about the object that is reconciled; see `Recorder.record`.

        Raises:
            UndeclaredError: the controller does not record events.
        """
        obj = self._required("record")
        if not self._scope.records_events:
            raise UndeclaredError(
                f"controller {self._scope.name!r} does not record events about {obj.kind.kind}: add .records_events()"
            )
        self._scope.recorder.record(obj, type_, reason, action, note, related)

    def _required(self, call: str) -> Any:
        if self._run.is_over:
            raise RuntimeError(
                f"ctx.{call} was called after its run: await it before the reconciler returns, or enqueue the key with"
                " a Channel"
            )
        if self._object is None:
            raise RuntimeError(
                f"ctx.{call} needs the object that is reconciled, and a reconciler of keys reads it itself:"
                f" ctx.of(obj).{call}(...)"
            )
        return self._object

    def _namespace(self, kind: ResourceKind, given: str | None) -> str:
        if not kind.namespaced:
            return ""
        namespace = self.key.namespace if given is None else given
        if not namespace:
            raise ValueError(f"expected the namespace of the {kind.kind}: {self.key} has none to take it from")
        return namespace

    def _placed(self, child: W, owner: KubeObject, call: str) -> W:
        given: object = child
        if not isinstance(given, TypedObject | DynamicObject):
            got = (
                given.__name__ if isinstance(given, type) else "None" if given is None else f"a {type(given).__name__}"
            )
            raise TypeError(
                f"ctx.{call}: expected an object, ConfigMap(ObjectMeta(name=...)) or a DynamicObject, got {got}"
            )
        kind, meta, home = child.kind, child.metadata, owner.metadata.namespace
        if not kind.namespaced or meta.namespace == home != "":
            return child
        if not home:
            if not meta.namespace:
                raise ValueError(
                    f"ctx.{call}: expected a namespace in the metadata of {kind.kind} {meta.name}:"
                    f" {owner.kind.kind} {owner.key} is cluster-scoped and has none to take it from"
                )
            return child
        if meta.namespace:
            raise UndeclaredError(
                f"{kind.kind} {child.key} is not in the namespace of its owner, {home}: leave its namespace out; for an"
                " object in another namespace use ctx.writer.ensure(desired, None, live=...) and a finalizer"
            )
        return _with_metadata(child, evolve(meta, namespace=home))


def _with_metadata(obj: W, metadata: ObjectMeta) -> W:
    if isinstance(obj, DynamicObject):
        return evolve(obj, body=obj.body | {"metadata": freeze(encode(metadata))})
    return evolve(obj, metadata=metadata)
