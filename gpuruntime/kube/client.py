"""The client: the verbs of the Kubernetes API, for objects in any form."""

import builtins
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, overload

import orjson
from attrs import evolve

from gpuruntime import __version__
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.infer import infer
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

    A `form` is a class of a typed kind, or one that `gpuruntime.kube.forms` makes; it decides the type of the result.
    Writes carry `field_manager`; with `dry_run` the server validates them and stores nothing. Both can be overridden
    for a call. The server refuses unknown and duplicate fields (strict field validation). A call takes at most
    `timeout` seconds, a list that long for each page.

    All methods raise KubeError for errors of the server and the network, DecodeError for a response that does not fit
    the form (a write has been executed by then), and ValueError or TypeError for invalid arguments, before anything is
    sent.
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
        """All objects of a namespace, or of all namespaces, at one resource version.

        It is the latest version, or one not older than `resource_version`; "0" accepts any version that the server has
        in its cache. If the continue token expires before the last page, everything is listed again in one request.
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
        """The pages of such a list, one by one. The iterator raises ExpiredError if the continue token expires."""
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
        """Create the object and return it as it was stored. It needs a name or a generate_name.

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
        """Replace the status of the object that was read; ConflictError if the object changed since."""
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
        """Patch an object and return it. A `subresource` must be a view of the object itself, such as status."""
        wanted = as_form(form)
        if isinstance(patch, StrategicPatch) and not _is_built_in(wanted.kind):
            raise ValueError(
                f"{wanted.kind} is not built in and takes no strategic merge patch; use MergePatch or apply"
            )
        if subresource == "scale":
            raise ValueError("a patch of scale does not return the object; use update_subresource")
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
        """Server-side apply. Fields in the object become owned by the field manager; fields that it owned before and no
        longer applies are removed, unless another manager owns them.

        An object that does not exist is created. A plain mapping needs a form beside it. Without `force`, a field that
        another manager set to another value raises ConflictError, whose causes name both.
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
        """Delete an object. Finalizers and the grace period may keep it for a while. See `DeleteOptions`."""
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
        """Delete all objects of a namespace that the labels select; an empty selector selects all.

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
        """Read a subresource that has its own type, such as scale."""
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
        """Create a TokenRequest, an Eviction or a Binding, and return the response."""
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
        """Replace a subresource that has its own type, such as scale."""
        return await self._write_subresource(
            "PUT", form, name, namespace, subresource, body, self._write_params(dry_run, field_manager)
        )

    async def _replace(self, obj: Whole, subresource: str | None, params: dict[str, str]) -> Whole:
        metadata = obj.metadata
        if not metadata.resource_version:
            raise ValueError(
                f"{obj.kind} {obj.key} has no resourceVersion: expected an object that was read, so that no change of "
                "another client is lost; use apply for a new object"
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
    """A client with its own connections, closed at the end; without credentials, with those of `infer`.

    Raises:
        CredentialsError: there are no credentials.
    """
    async with Transport(credentials or infer(), user_agent=user_agent, retries=retries) as transport:
        yield Client(transport, field_manager=field_manager, dry_run=dry_run)


def _whole(obj: Any) -> Form[Any]:
    if not isinstance(obj, TypedObject | DynamicObject):
        raise TypeError(f"expected a typed or dynamic object, got {type(obj).__qualname__}; use patch for metadata")
    return form_of(obj)


def _collection(kind: ResourceKind, namespace: str) -> str:
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind} is namespaced: expected a namespace, got none")
    return kind.path(namespace)


def _is_built_in(kind: ResourceKind) -> bool:
    # Custom kinds may be in groups of *.k8s.io, too; the server then returns 415.
    return "." not in kind.group or kind.group.endswith(".k8s.io")
