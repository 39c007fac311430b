"""Writes that are safe to repeat: only what differs, only what is ours, never over somebody's change."""

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
    """What `ensure` did, and the object as it is now, without managed_fields as in caches; `differences` are the paths
    for which it was written.
    """

    result: Literal["unchanged", "created", "updated"]
    object: W
    differences: tuple[str, ...] = field(default=(), kw_only=True)


class Writer:
    """Brings objects to a desired state.

    `field_manager` is a DNS name such as widgets.example.org. It is the field manager of the writes, whatever that of
    the client is, and the prefix of the annotations that record what was desired last, and for which owner: see
    `OwnershipAnnotations`. Keep it: under another name what was written before is foreign, labels and annotations that
    are no longer desired are not removed, and by "apply" the old name goes on to own its fields.
    """

    def __init__(self, client: Client, *, field_manager: str) -> None:
        self._client = client
        self._field_manager = field_manager
        self._marks = OwnershipAnnotations(field_manager)
        self._wishes = DesiredStateCache(self._marks)
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
        """Make the object what is desired, with `owner` as its controller.

        `live` is the object as a cache has it, None if it has none; old news leads to an error, never to a wrong write.
        By "replace" the object is ours entirely, but for its labels and annotations and for what the server and other
        controllers fill in. By "apply" it is shared with others: a field that another manager set to something else is
        a ConflictError unless `force` is true, and without an owner it does not matter who controls it.

        Guarantees:
            - Nothing is written unless something was desired otherwise before, or the live object differs. By "replace"
              it differs if it is not what the server makes of our write, whatever was changed, added or taken away.
              What a server makes of a write is known from its answers to earlier ones; where that does not tell, it is
              asked to rehearse this one (a dry run).
            - What was desired before and is not any more goes, finalizers and owner references excepted; labels and
              annotations of others stay.
            - An object that is not ours, or is being deleted, is not touched. Ours is what we wrote for this owner, by
              the annotation "<field manager>/owner-uid", and nobody else controls; without an owner, what we wrote
              before and nobody controls. With `adopt`, one that nobody else controls or wrote becomes ours.

        Caveats:
            Where webhooks refuse dry runs, the write is made instead of the rehearsal.
            By "apply", an object that somebody makes between our look and our write is applied to. Objects are values:
            a change inside one that was handed over before, which only a mutable field allows, goes unnoticed.

        Raises:
            ConflictError: the object changed since; read it again and decide again.
            NotFoundError: the object is gone, or its namespace is.
            ForeignObjectError, StaleOwnerError, BeingDeletedError: it must not be touched; see there.
            ImmutableDifferenceError: it differs where nothing can be changed.
            KubeError: whatever else a request may end with.
            ValueError: `desired` has no name, `live` is another object, `force` without apply.
        """
        if force and mode != "apply":
            raise ValueError("force is for mode 'apply': expected that mode, got 'replace'")
        if live is not None and (live.kind, live.key) != (desired.kind, desired.key):
            raise ValueError(f"expected {desired.kind} {desired.key} as the live object, got {live.kind} {live.key}")
        wish = self._wishes.of(desired, owner, mode)
        body = wish.body
        form: Form[W] = without_managed_fields(form_of(desired))
        if live is None and mode == "replace":
            created = await self._create(form, body)
            if created is not None:
                self._learn(wish, created)
                return Outcome("created", created)
        if live is None:
            live = await self._read(desired)
        if live is None:
            created = await self._write_new(form, body, mode, force=force)
            if mode == "replace":
                self._learn(wish, created)
            return Outcome("created", created)
        check_writable(live)
        if mode == "replace" or owner is not None:
            check_ours(live, owner, self._marks, adopt=adopt)
        if mode == "replace" and owner is None and not adopt:
            self._check_known(live)
        return await self._update(form, wish, live, mode, force=force)

    async def remove(
        self,
        live: KubeObject,
        owner: KubeObject | None,
        *,
        unchanged: bool = False,
        propagation: Propagation | None = None,
    ) -> bool:
        """Ask for the deletion of this very object; with `unchanged`, only in the state in which it was read.

        One that is gone or being deleted is fine; the result is whether a deletion was accepted.

        Raises:
            ConflictError: another object has the name by now, or the object changed.
            ForeignObjectError, StaleOwnerError: it is not ours.
            ValueError: the object was not read from a server.
        """
        check_ours(live, owner, self._marks)
        meta = live.metadata
        if not meta.uid or not meta.resource_version:
            raise ValueError(f"expected {live.kind} {live.key} as it was read, got one without uid and version")
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

    def _check_known(self, live: KubeObject) -> None:
        """Refuse an object that nobody controls and that we never wrote: it is somebody's all the same."""
        if self._marks.hash_name not in live.metadata.annotations:
            raise ForeignObjectError(live, None, None)

    async def _create(self, form: Form[W], body: dict[str, Any]) -> W | None:
        """The new object, None if there is one already: the cache was behind."""
        try:
            return await self._write_new(form, body, "replace", force=False)
        except AlreadyExistsError:
            return None

    async def _write_new(self, form: Form[W], body: dict[str, Any], mode: Mode, *, force: bool) -> W:
        if mode == "apply":
            return await self._client.apply(body, form, force=force, field_manager=self._field_manager)
        return await self._client.create(body, form, field_manager=self._field_manager)

    async def _update(self, form: Form[W], wish: DesiredState, live: W, mode: Mode, *, force: bool) -> Outcome[W]:
        if wish.is_fulfilled_by(live):
            return Outcome("unchanged", live)
        before, body = encode(live), wish.body
        found: tuple[str, ...] | None
        if mode == "apply":
            found = differences(body, before, shared=True)
        else:
            found = await self._differences(form, wish, live, before)
        if not found:
            wish.fulfilled = None if found is None else live
            return Outcome("unchanged", live)
        try:
            if mode == "apply":
                # The UID keeps us from an object that was made under the name since: the server takes it for an
                # attempt to change the UID.
                aimed = {**body, "metadata": {**body["metadata"], "uid": live.metadata.uid}}
                written = await self._client.apply(aimed, form, force=force, field_manager=self._field_manager)
            else:
                written = await self._put(form, replacement(body, before, self._marks))
        except InvalidError as error:
            _raise_refusal(live, error)
            raise
        if mode == "replace":
            self._learn(wish, written)
        return Outcome("updated", written, differences=found)

    async def _differences(
        self, form: Form[W], wish: DesiredState, live: W, before: dict[str, Any]
    ) -> tuple[str, ...] | None:
        """Where an object that is wholly ours is not what the server would make of our write; none if it is.

        None if it has all that we desire, and the server refuses to say more.
        """
        body, kind, namespace = wish.body, live.kind, live.metadata.namespace
        if metadata_differences(body, before):
            return self._named(live, body, before)
        whole = replacement(body, before, self._marks)
        rewritten = tuple(rewrites(whole, before, body))
        if self._known.explain(kind, namespace, rewritten):
            return ()
        try:
            answer = await self._rehearse(form, live, whole)
        except _REFUSALS as error:
            named = self._named(live, body, before)
            if named:
                return named
            # A policy that is newer than the object: it would refuse a write, too, and all that we desire is there.
            about = {"object": f"{kind} {live.key}", "error": str(error)}
            _LOG.warning("an object cannot be compared with what the server makes of it", extra=about)
            return None
        changed = rewritten if answer is None else tuple(rewrites(encode(answer), before))
        if not changed:
            self._known.learn(kind, namespace, rewritten)
            return ()
        return self._named(live, body, before) or tuple(each.path for each in changed)

    def _named(self, live: W, body: dict[str, Any], before: dict[str, Any]) -> tuple[str, ...]:
        """The differences as far as they can be told without asking the server.

        Raises:
            ImmutableDifferenceError: one of them cannot be changed.
        """
        named = differences(body, before)
        fixed = immutable_among(live.kind, before, named)
        if fixed:
            raise ImmutableDifferenceError(live, fixed)
        return named

    async def _rehearse(self, form: Form[W], live: W, whole: dict[str, Any]) -> W | None:
        """What the server would make of a write; None if that cannot be rehearsed, but only done."""
        try:
            return await self._put(form, whole, dry_run=True)
        except BadRequestError as error:
            # A webhook with side effects, which has no other words for it.
            if "dry run" in error.message:
                return None
            raise
        except InvalidError as error:
            _raise_refusal(live, error)
            raise

    async def _put(self, form: Form[W], whole: dict[str, Any], *, dry_run: bool | None = None) -> W:
        return await self._client.update(form.decode(whole), dry_run=dry_run, field_manager=self._field_manager)

    def _learn(self, wish: DesiredState, written: W) -> None:
        """Note what the server made of a write."""
        after = encode(written)
        sent = replacement(wish.body, after, self._marks)
        self._known.learn(written.kind, written.metadata.namespace, rewrites(sent, after, wish.body))
        wish.fulfilled = written

    async def _read(self, wanted: W) -> W | None:
        form: Form[W] = without_managed_fields(form_of(wanted))
        try:
            return await self._client.get(form, wanted.metadata.name, wanted.metadata.namespace)
        except NotFoundError:
            return None


def _raise_refusal(live: KubeObject, error: InvalidError) -> None:
    """Say what the refusal of a write means, if that is known."""
    refused = immutable_causes(error)
    if "metadata.uid" in refused:
        said = f"{live.kind.kind} {live.key} was made again since it was read; read it again"
        raise ConflictError(Status(409, "Conflict", said), error.request) from error
    if refused:
        raise ImmutableDifferenceError(live, refused) from error
