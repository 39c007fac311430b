"""Idempotent writes: only real differences, only our own objects, never over a concurrent change."""

import logging
from typing import Any, Final, Generic, Literal, TypeVar

from attrs import field, frozen

from gpuruntime.control.writing.comparison import differences, metadata_differences
from gpuruntime.control.writing.desired_cache import DesiredState, DesiredStateCache
from gpuruntime.control.writing.desired_state import OwnershipAnnotations
from gpuruntime.control.writing.immutable_fields import immutable_among, immutable_causes
from gpuruntime.control.writing.ownership import check_ours, check_writable
from gpuruntime.control.writing.replacement import replacement
from gpuruntime.control.writing.server_rewrites import KnownRewrites, rewrites
from gpuruntime.control.writing.trimmed_forms import without_managed_fields
from gpuruntime.control.writing.write_errors import ForeignObjectError, ImmutableDifferenceError
from gpuruntime.kube.client import Client
from gpuruntime.kube.delete_options import Propagation
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    Status,
)
from gpuruntime.kube.forms import Form, form_of
from gpuruntime.meta.codec import encode
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.objects import KubeObject, TypedObject

__all__ = ["Mode", "Outcome", "Writer"]

_LOG = logging.getLogger(__name__)
_REFUSALS: Final = (BadRequestError, ForbiddenError, InvalidError)
W = TypeVar("W", bound=TypedObject | DynamicObject)
Mode = Literal["replace", "apply"]


@frozen
class Outcome(Generic[W]):
    """The result of `ensure`, the current object (without managedFields, as in caches), and the paths that differed."""

    result: Literal["unchanged", "created", "updated"]
    object: W
    differences: tuple[str, ...] = field(default=(), kw_only=True)


class Writer:
    """Brings objects to a desired state.

    `field_manager` is a DNS name such as widgets.example.org. It is the field manager of the writes, whatever that of
    the client is, and the prefix of the annotations that record the desired state and its owner: see
    `OwnershipAnnotations`. Do not change it: under another name, existing objects are foreign, labels and annotations
    that are no longer desired are not removed, and with "apply" the old name continues to own its fields.
    """

    def __init__(self, client: Client, *, field_manager: str) -> None:
        self._client = client
        self._field_manager = field_manager
        self._annotations = OwnershipAnnotations(field_manager)
        self._desired = DesiredStateCache(self._annotations)
        self._known = KnownRewrites()

    async def ensure(
        self,
        desired: W,
        owner: KubeObject | None,
        *,
        live: W | None,
        mode: Mode = "replace",
        adopt: bool = False,
        force: bool = False,
    ) -> Outcome[W]:
        """Create or update an object so that it matches `desired`, with `owner` as its controller.

        `live` is the cached object, None if the cache has none. A stale `live` leads to an error, never to a wrong
        write. With mode "replace" the whole object is ours, except labels and annotations of others and fields that
        the server and other controllers fill in. With mode "apply" the object is shared: a field that another field
        manager set to a different value is a ConflictError unless `force` is true, and without an owner the controller
        of the object does not matter.

        Guarantees:
            - A write happens only if the desired state has changed or the live object differs. With "replace", it
              differs if it is not what the server makes of our write, whatever was changed, added or removed. What the
              server makes of a write is known from its responses to earlier writes, or else from a dry run.
            - What is no longer desired is removed, except finalizers and owner references. Labels and annotations of
              others are kept.
            - An object that is not ours, or is being deleted, is not modified. An object is ours if we wrote it for
              this owner, by the annotation "<field manager>/owner-uid", and no other owner controls it; without an
              owner, if we wrote it and it has no controller. With `adopt`, an object that has neither a controller nor
              the annotation becomes ours.

        Caveats:
            If a webhook does not support dry runs, the write itself is made. With "apply", an object that is created
            concurrently is applied to. Desired objects are treated as values: a change inside of one, which only a
            mutable field allows, is not noticed.

        Raises:
            ConflictError: the object has changed; read it again.
            NotFoundError: the object or its namespace is gone.
            ForeignObjectError, StaleOwnerError, BeingDeletedError: the object must not be modified.
            ImmutableDifferenceError: the object differs in immutable fields.
            KubeError: any other error of a request.
            ValueError: `desired` has no name, `live` is another object, or `force` is used with "replace".
        """
        if force and mode != "apply":
            raise ValueError("force needs mode 'apply', got mode 'replace'")
        if live is not None and (live.kind, live.key) != (desired.kind, desired.key):
            raise ValueError(f"expected {desired.kind} {desired.key} as the live object, got {live.kind} {live.key}")
        state = self._desired.of(desired, owner, mode)
        body = state.body
        form: Form[W] = without_managed_fields(form_of(desired))
        if live is None and mode == "replace":
            created = await self._create(form, body)
            if created is not None:
                self._learn(state, created)
                return Outcome("created", created)
        if live is None:
            live = await self._read(desired)
        if live is None:
            created = await self._write_new(form, body, mode, force=force)
            if mode == "replace":
                self._learn(state, created)
            return Outcome("created", created)
        check_writable(live)
        if mode == "replace" or owner is not None:
            check_ours(live, owner, self._annotations, adopt=adopt)
        if mode == "replace" and owner is None and not adopt:
            self._check_written_by_us(live)
        return await self._update(form, state, live, mode, force=force)

    async def remove(
        self,
        live: KubeObject,
        owner: KubeObject | None,
        *,
        unchanged: bool = False,
        propagation: Propagation | None = None,
    ) -> bool:
        """Delete this object, by UID; with `unchanged`, only at the resource version that was read.

        An object that is gone or being deleted is no error. Returns whether the server accepted a deletion.

        Raises:
            ConflictError: another object has the name now, or the object has changed.
            ForeignObjectError, StaleOwnerError: the object is not ours.
            ValueError: the object was not read from a server.
        """
        check_ours(live, owner, self._annotations)
        meta = live.metadata
        if not meta.uid or not meta.resource_version:
            raise ValueError(f"expected {live.kind} {live.key} as read from the server, got one without uid or version")
        if meta.deletion_timestamp is not None:
            return False
        try:
            await self._client.delete(
                form_of(live),
                meta.name,
                meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version if unchanged else None,
                propagation=propagation,
            )
        except NotFoundError:
            return False
        return True

    def _check_written_by_us(self, live: KubeObject) -> None:
        """Refuse an object that we never wrote: even without a controller it is not ours."""
        if self._annotations.hash_name not in live.metadata.annotations:
            raise ForeignObjectError(live, None, None)

    async def _create(self, form: Form[W], body: dict[str, Any]) -> W | None:
        """The new object, None if it already exists because the cache was stale."""
        try:
            return await self._write_new(form, body, "replace", force=False)
        except AlreadyExistsError:
            return None

    async def _write_new(self, form: Form[W], body: dict[str, Any], mode: Mode, *, force: bool) -> W:
        if mode == "apply":
            return await self._client.apply(body, form, force=force, field_manager=self._field_manager)
        return await self._client.create(body, form, field_manager=self._field_manager)

    async def _update(self, form: Form[W], state: DesiredState, live: W, mode: Mode, *, force: bool) -> Outcome[W]:
        if state.is_fulfilled_by(live):
            return Outcome("unchanged", live)
        before, body = encode(live), state.body
        found: tuple[str, ...] | None
        if mode == "apply":
            found = differences(body, before, shared=True)
        else:
            found = await self._differences(form, state, live, before)
        if not found:
            state.fulfilled = None if found is None else live
            return Outcome("unchanged", live)
        try:
            if mode == "apply":
                # With the UID, an apply to an object that was recreated meanwhile fails: the server sees an attempt to
                # change the UID.
                pinned = {**body, "metadata": {**body["metadata"], "uid": live.metadata.uid}}
                written = await self._client.apply(pinned, form, force=force, field_manager=self._field_manager)
            else:
                written = await self._put(form, replacement(body, before, self._annotations))
        except InvalidError as error:
            _raise_refusal(live, error)
            raise
        if mode == "replace":
            self._learn(state, written)
        return Outcome("updated", written, differences=found)

    async def _differences(
        self, form: Form[W], state: DesiredState, live: W, before: dict[str, Any]
    ) -> tuple[str, ...] | None:
        """The paths at which an object that is wholly ours differs from what the server would make of our write.

        None if it has everything that we desire and the server refuses the dry run.
        """
        body, kind, namespace = state.body, live.kind, live.metadata.namespace
        if metadata_differences(body, before):
            return self._local_differences(live, body, before)
        whole = replacement(body, before, self._annotations)
        rewritten = tuple(rewrites(whole, before, body))
        if self._known.explain(kind, namespace, rewritten):
            return ()
        try:
            result = await self._dry_run(form, live, whole)
        except _REFUSALS as error:
            local = self._local_differences(live, body, before)
            if local:
                return local
            # A policy newer than the object would refuse the write, too, and the object has everything we desire.
            about = {"object": f"{kind} {live.key}", "error": str(error)}
            _LOG.warning("dry run refused, object not compared", extra=about)
            return None
        changed = rewritten if result is None else tuple(rewrites(encode(result), before))
        if not changed:
            self._known.learn(kind, namespace, rewritten)
            return ()
        return self._local_differences(live, body, before) or tuple(each.path for each in changed)

    def _local_differences(self, live: W, body: dict[str, Any], before: dict[str, Any]) -> tuple[str, ...]:
        """The differences that are known without asking the server.

        Raises:
            ImmutableDifferenceError: one of them is in an immutable field.
        """
        found = differences(body, before)
        immutable = immutable_among(live.kind, before, found)
        if immutable:
            raise ImmutableDifferenceError(live, immutable)
        return found

    async def _dry_run(self, form: Form[W], live: W, whole: dict[str, Any]) -> W | None:
        """What the server would make of a write; None if a webhook does not support dry runs."""
        try:
            return await self._put(form, whole, dry_run=True)
        except BadRequestError as error:
            # A webhook with side effects; only the message says so.
            if "dry run" in error.message:
                return None
            raise
        except InvalidError as error:
            _raise_refusal(live, error)
            raise

    async def _put(self, form: Form[W], whole: dict[str, Any], *, dry_run: bool | None = None) -> W:
        return await self._client.update(form.decode(whole), dry_run=dry_run, field_manager=self._field_manager)

    def _learn(self, state: DesiredState, written: W) -> None:
        """Record what the server made of a write."""
        after = encode(written)
        sent = replacement(state.body, after, self._annotations)
        self._known.learn(written.kind, written.metadata.namespace, rewrites(sent, after, state.body))
        state.fulfilled = written

    async def _read(self, desired: W) -> W | None:
        form: Form[W] = without_managed_fields(form_of(desired))
        try:
            return await self._client.get(form, desired.metadata.name, desired.metadata.namespace)
        except NotFoundError:
            return None


def _raise_refusal(live: KubeObject, error: InvalidError) -> None:
    """Raise a more specific error for a refused write, if its cause is known."""
    refused = immutable_causes(error)
    if "metadata.uid" in refused:
        message = f"{live.kind.kind} {live.key} was recreated since it was read; read it again"
        raise ConflictError(Status(409, "Conflict", message), error.request) from error
    if refused:
        raise ImmutableDifferenceError(live, refused) from error
