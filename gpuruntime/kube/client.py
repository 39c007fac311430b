"""The verbs of the Kubernetes API, for objects in any form."""

import builtins
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, overload

import orjson
from attrs import evolve

from gpuruntime import __version__
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import infer
from gpuruntime.kube.delete_options import DeleteOptions, Propagation
from gpuruntime.kube.errors import ExpiredError
from gpuruntime.kube.forms import Form, as_form, form_of
from gpuruntime.kube.list_pages import ListQuery, ObjectList, Pages
from gpuruntime.kube.patches import Patch, StrategicPatch
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.retries import RetryPolicy
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import (
    EMPTY,
    DynamicObject,
    FieldSelector,
    PartialObject,
    ResourceKind,
    Selector,
    TypedObject,
    encode,
    encode_bytes,
)

__all__ = ["Client", "connect"]

T = TypeVar("T")
Whole = TypeVar("Whole", bound=TypedObject | DynamicObject)
Applied = TypeVar("Applied", bound=TypedObject | DynamicObject | PartialObject)

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"


class Client:
    """Reads and writes objects; every call is a live request.

    A `form` is a class of a typed kind, or what `gpuruntime.kube.forms` makes; the type of the result follows it.
    Writes carry `field_manager`, and are only rehearsed by the server where `dry_run` is true; both can be said
    differently for a call. The server refuses unknown and duplicate fields in what is written. A call takes at most
    `timeout` seconds, a list that long for each page.

    All methods raise KubeError for what the server and the wire do, DecodeError for an answer that does not fit the
    form (a write is executed by then), and ValueError or TypeError, before anything is sent, for what makes no sense.
    """

    def __init__(self, transport: Wire, *, field_manager: str, dry_run: bool = False, timeout: float = 30.0) -> None:
        self._transport = transport
        self._field_manager = field_manager
        self._dry_run = dry_run
        self._timeout = timeout

    async def get(self, form: type[T] | Form[T], name: str, namespace: str = "") -> T:
        wanted = as_form(form)
        return wanted.decode(await self._json("GET", wanted.kind.path(namespace, name), accept=wanted.accept))

    async def list(
        self,
        form: type[T] | Form[T],
        namespace: str | None = None,
        *,
        labels: Selector | str | None = None,
        fields: FieldSelector | str | None = None,
        resource_version: str | None = None,
        page_size: int = 500,
    ) -> ObjectList[T]:
        """All objects of a namespace, or of all of them, as they were at one moment.

        It is the latest moment, or one not older than `resource_version`; "0" takes whatever the server has at hand.
        If the list takes so long that the server forgets the moment, the list is taken anew, at once and not in
        pages.
        """
        query = ListQuery(str(labels or ""), str(fields or ""), resource_version, page_size)
        wanted = as_form(form)
        items: builtins.list[T] = []
        pages = Pages(self._transport, wanted, namespace, query, self._timeout)
        page = await anext(pages)
        items += page.items
        try:
            async for later in pages:
                items += later.items
        except ExpiredError:
            return await anext(Pages(self._transport, wanted, namespace, evolve(query, page_size=0), self._timeout))
        return ObjectList(tuple(items), page.resource_version)

    def pages(
        self,
        form: type[T] | Form[T],
        namespace: str | None = None,
        *,
        labels: Selector | str | None = None,
        fields: FieldSelector | str | None = None,
        resource_version: str | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[ObjectList[T]]:
        """The pages of such a list as they come.

        Where `list` would begin anew, the iterator raises ExpiredError.
        """
        query = ListQuery(str(labels or ""), str(fields or ""), resource_version, page_size)
        return Pages(self._transport, as_form(form), namespace, query, self._timeout)

    @overload
    async def create(
        self, obj: Whole, form: None = None, *, dry_run: bool | None = None, field_manager: str | None = None
    ) -> Whole: ...

    @overload
    async def create(
        self,
        obj: Mapping[str, Any],
        form: type[T] | Form[T],
        *,
        dry_run: bool | None = None,
        field_manager: str | None = None,
    ) -> T: ...

    async def create(
        self, obj: Any, form: Any = None, *, dry_run: bool | None = None, field_manager: str | None = None
    ) -> Any:
        """The object as it was stored. Give it a name, or a generate_name for the server to complete.

        A plain mapping needs a form beside it.
        """
        wanted: Form[Any] = _whole(obj) if form is None else as_form(form)
        body = obj if isinstance(obj, Mapping) else encode(obj)
        path = _collection(wanted.kind, (body.get("metadata") or {}).get("namespace") or "")
        params = self._write_params(dry_run, field_manager)
        raw = await self._json("POST", path, params=params, body=orjson.dumps(body), accept=wanted.accept)
        return wanted.decode(raw)

    async def update(self, obj: Whole, *, dry_run: bool | None = None, field_manager: str | None = None) -> Whole:
        """Replace the object that was read; ConflictError if it changed since."""
        return await self._replace(obj, None, self._write_params(dry_run, field_manager))

    async def update_status(
        self, obj: Whole, *, dry_run: bool | None = None, field_manager: str | None = None
    ) -> Whole:
        """Replace the status of the object that was read, and nothing else; ConflictError if it changed since."""
        return await self._replace(obj, "status", self._write_params(dry_run, field_manager))

    async def patch(
        self,
        form: type[T] | Form[T],
        name: str,
        namespace: str,
        patch: Patch,
        *,
        subresource: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
    ) -> T:
        """The object after the patch. A `subresource` must be one that is a view of the object itself, as status is."""
        wanted = as_form(form)
        if isinstance(patch, StrategicPatch) and not _is_built_in(wanted.kind):
            raise ValueError(f"{wanted.kind} takes no strategic patch, built-in kinds do; use MergePatch or apply")
        if subresource == "scale":
            raise ValueError("a patch of scale does not give back the object; use update_subresource")
        raw = await self._json(
            "PATCH",
            wanted.kind.path(namespace, name, subresource),
            params=self._write_params(dry_run, field_manager),
            body=orjson.dumps(patch.body),
            content_type=patch.CONTENT_TYPE,
            accept=wanted.accept,
        )
        return wanted.decode(raw)

    @overload
    async def apply(
        self,
        obj: Applied,
        form: None = None,
        *,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
    ) -> Applied: ...

    @overload
    async def apply(
        self,
        obj: Mapping[str, Any],
        form: type[T] | Form[T],
        *,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
    ) -> T: ...

    async def apply(
        self,
        obj: Any,
        form: Any = None,
        *,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
    ) -> Any:
        """Server-side apply: what the object says becomes ours, what we no longer say and nobody else does goes.

        It makes the object if there is none. A plain mapping needs a form beside it. Without `force`, a field that
        another manager set to something else is a ConflictError whose causes name both.
        """
        wanted: Form[Any] = form_of(obj) if form is None else as_form(form)
        body = dict(obj) if isinstance(obj, Mapping) else encode(obj)
        body |= {"apiVersion": wanted.kind.api_version, "kind": wanted.kind.kind}
        metadata = body.get("metadata") or {}
        raw = await self._json(
            "PATCH",
            wanted.kind.path(metadata.get("namespace"), metadata.get("name") or "", subresource),
            params={**self._write_params(dry_run, field_manager), "force": "true" if force else "false"},
            body=orjson.dumps(body),
            content_type=_APPLY,
            accept=wanted.accept,
        )
        return wanted.decode(raw)

    async def delete(
        self,
        form: type[Any] | Form[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        dry_run: bool | None = None,
    ) -> None:
        """Ask for the deletion; finalizers and grace may keep the object for a while. See `DeleteOptions`."""
        options = DeleteOptions(uid, resource_version, propagation, grace_seconds, self._is_dry(dry_run))
        path = as_form(form).kind.path(namespace, name)
        await self._transport.send(Request("DELETE", path, body=options.encode(), timeout=self._timeout))

    async def delete_all(
        self,
        form: type[Any] | Form[Any],
        namespace: str,
        labels: Selector | str,
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        dry_run: bool | None = None,
    ) -> None:
        """Ask for the deletion of all objects of a namespace that the labels select; an empty selector is all.

        The namespace is "" for a cluster-scoped kind.
        """
        options = DeleteOptions(propagation=propagation, grace_seconds=grace_seconds, dry_run=self._is_dry(dry_run))
        path, selector = _collection(as_form(form).kind, namespace), str(labels)
        params = {"labelSelector": selector} if selector else {}
        request = Request("DELETE", path, params=params, body=options.encode(), timeout=self._timeout)
        await self._transport.send(request)

    async def read_subresource(
        self, form: type[Any] | Form[Any], name: str, namespace: str, subresource: str
    ) -> dict[str, Any]:
        """A subresource of a type of its own, such as scale."""
        return await self._json("GET", as_form(form).kind.path(namespace, name, subresource))

    async def create_subresource(
        self,
        form: type[Any] | Form[Any],
        name: str,
        namespace: str,
        subresource: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool | None = None,
        field_manager: str | None = None,
    ) -> dict[str, Any]:
        """What the server makes of a TokenRequest, an Eviction or a Binding."""
        return await self._write_subresource(
            "POST", form, name, namespace, subresource, body, self._write_params(dry_run, field_manager)
        )

    async def update_subresource(
        self,
        form: type[Any] | Form[Any],
        name: str,
        namespace: str,
        subresource: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool | None = None,
        field_manager: str | None = None,
    ) -> dict[str, Any]:
        """Replace a subresource of a type of its own, such as scale."""
        return await self._write_subresource(
            "PUT", form, name, namespace, subresource, body, self._write_params(dry_run, field_manager)
        )

    async def _replace(self, obj: Whole, subresource: str | None, params: dict[str, str]) -> Whole:
        metadata = obj.metadata
        if not metadata.resource_version:
            raise ValueError(
                f"{obj.kind} {obj.key} has no resourceVersion: expected an object that was read, so that nobody's "
                "change is lost; use apply for an object made from scratch"
            )
        path = obj.kind.path(metadata.namespace, metadata.name, subresource)
        form: Form[Whole] = _whole(obj)
        return form.decode(await self._json("PUT", path, params=params, body=encode_bytes(obj)))

    async def _write_subresource(
        self,
        method: str,
        form: type[Any] | Form[Any],
        name: str,
        namespace: str,
        subresource: str,
        body: Mapping[str, Any],
        params: dict[str, str],
    ) -> dict[str, Any]:
        path = as_form(form).kind.path(namespace, name, subresource)
        return await self._json(method, path, params=params, body=orjson.dumps(dict(body)))

    async def _json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] = EMPTY,
        body: bytes | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> dict[str, Any]:
        request = Request(method, path, params, body, content_type, accept, self._timeout)
        return (await self._transport.send(request)).json_object()

    def _write_params(self, dry_run: bool | None, field_manager: str | None) -> dict[str, str]:
        params = {"fieldManager": field_manager or self._field_manager, "fieldValidation": "Strict"}
        return {**params, "dryRun": "All"} if self._is_dry(dry_run) else params

    def _is_dry(self, dry_run: bool | None) -> bool:
        return self._dry_run if dry_run is None else dry_run


@asynccontextmanager
async def connect(
    credentials: Credentials | None = None,
    *,
    field_manager: str = "gpuruntime",
    user_agent: str = f"gpuruntime/{__version__}",
    dry_run: bool = False,
    retries: RetryPolicy = RetryPolicy(),
) -> AsyncIterator[Client]:
    """A client with connections of its own, closed at the end; without credentials, with those that `find` finds.

    Raises:
        CredentialsError: there are none.
    """
    async with Transport(credentials or infer(), user_agent=user_agent, retries=retries) as transport:
        yield Client(transport, field_manager=field_manager, dry_run=dry_run)


def _whole(obj: Any) -> Form[Any]:
    if not isinstance(obj, TypedObject | DynamicObject):
        raise TypeError(f"expected a whole object to write, got {type(obj).__qualname__}; use patch for metadata")
    return form_of(obj)


def _collection(kind: ResourceKind, namespace: str) -> str:
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind} is namespaced: expected a namespace, got none")
    return kind.path(namespace)


def _is_built_in(kind: ResourceKind) -> bool:
    # Custom kinds may be in groups of *.k8s.io, too; then the server says 415.
    return "." not in kind.group or kind.group.endswith(".k8s.io")
