"""What we desire, as it goes over the wire, and the marks by which we know it again."""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import orjson
from attrs import evolve, frozen

from gpuruntime.meta.codec import encode
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.names import is_dns_subdomain
from gpuruntime.meta.objects import KubeObject, ObjectMeta, TypedObject
from gpuruntime.meta.owners import set_controller

__all__ = ["SHARED_MAPS", "OwnershipAnnotations", "desired_body", "inner"]

Json = dict[str, Any]

# Maps in which others may have entries beside ours.
SHARED_MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"))
_HASH_LENGTH: Final = 16


@frozen
class OwnershipAnnotations:
    """The annotations that a manager leaves on what it writes.

    "<manager>/desired-hash" is the hash of what was desired: it differs when anything is desired otherwise, also when
    something is not desired any more. "<manager>/desired-keys" says which entries of shared maps are ours, so that
    they can be taken back without touching those of others. "<manager>/owner-uid" is the UID of the owner, by which a
    child is known whatever becomes of its owner references and labels, and "<manager>/owner" its resource and name,
    such as "widgets.example.org/demo".
    """

    manager: str

    def __attrs_post_init__(self) -> None:
        if not is_dns_subdomain(self.manager):
            raise ValueError(f"expected a DNS name such as widgets.example.org as manager, got {self.manager!r}")

    @property
    def hash_name(self) -> str:
        return f"{self.manager}/desired-hash"

    @property
    def keys_name(self) -> str:
        return f"{self.manager}/desired-keys"

    @property
    def owner_name(self) -> str:
        return f"{self.manager}/owner"

    @property
    def owner_uid_name(self) -> str:
        return f"{self.manager}/owner-uid"

    def owner_uid(self, meta: ObjectMeta) -> str:
        """The UID of the owner that an object was written for, "" if it does not say."""
        return meta.annotations.get(self.owner_uid_name, "")

    def owner_key(self, meta: ObjectMeta, kind: ResourceKind) -> ObjectKey | None:
        """The owner of this kind that an object was written for, None if it does not name one."""
        name = meta.annotations.get(self.owner_name, "").removeprefix(f"{_resource(kind)}/")
        if not is_dns_subdomain(name):
            return None
        return ObjectKey(meta.namespace if kind.namespaced else "", name)

    def put_on(self, body: Json, owner: KubeObject | None = None) -> Json:
        """The desired body with the annotations."""
        keys = {".".join(path): sorted(entries) for path in SHARED_MAPS if (entries := inner(body, path))}
        metadata = body["metadata"]
        marks = {self.hash_name: _hash(body)}
        if keys:
            marks[self.keys_name] = orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()
        if owner is not None:
            marks[self.owner_name] = f"{_resource(owner.kind)}/{owner.key.name}"
            marks[self.owner_uid_name] = owner.metadata.uid
        annotations = {**metadata.get("annotations", {}), **marks}
        return {**body, "metadata": {**metadata, "annotations": annotations}}

    def ours(self, live: Mapping[str, Any], path: tuple[str, ...]) -> frozenset[str]:
        """The entries of a shared map that we put there when we last wrote; none if that cannot be told."""
        try:
            known = orjson.loads((inner(live, ("metadata", "annotations")) or {})[self.keys_name])
            entries = frozenset(known.get(".".join(path), ()))
        except (KeyError, TypeError, AttributeError, orjson.JSONDecodeError):
            entries = frozenset()
        names = {self.hash_name, self.keys_name, self.owner_name, self.owner_uid_name}
        own_marks = names if path == ("metadata", "annotations") else set()
        return entries | own_marks


def desired_body(desired: TypedObject | DynamicObject, owner: KubeObject | None) -> Json:
    """The JSON of a desired object without what only a server writes: identity, version, status.

    Raises:
        OwnerError: the owner cannot own it.
        ValueError: it has no name.
    """
    meta = desired.metadata
    if not meta.name:
        raise ValueError(f"expected a name for the desired {desired.kind}, got none; generated names are never found")
    if owner is not None:
        meta = set_controller(meta, owner)
    body = encode(desired)
    body.pop("status", None)
    body["metadata"] = encode(
        evolve(
            ObjectMeta(name=meta.name, namespace=meta.namespace),
            labels=meta.labels,
            annotations=meta.annotations,
            finalizers=meta.finalizers,
            owner_references=meta.owner_references,
        )
    )
    if (desired.kind.group, desired.kind.kind) == ("", "Secret") and "stringData" in body:
        # The server keeps it as data and never shows it again.
        texts: Mapping[str, str] = body.pop("stringData") or {}
        plain = {name: b64encode(text.encode()).decode() for name, text in texts.items()}
        body["data"] = {**(body.get("data") or {}), **plain}
    return body


def inner(body: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path, None if there is none."""
    value: Any = body
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _resource(kind: ResourceKind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _hash(body: Json) -> str:
    # The controller is compared as a reference; owners that are made again must not look like a change of ours.
    metadata = {name: value for name, value in body["metadata"].items() if name != "ownerReferences"}
    text = orjson.dumps({**body, "metadata": metadata}, option=orjson.OPT_SORT_KEYS)
    return sha256(text).hexdigest()[:_HASH_LENGTH]
