"""The JSON of a desired object, and the ownership annotations on it."""

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

# Maps in which other writers may have entries.
SHARED_MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"))
_HASH_LENGTH: Final = 16


@frozen
class OwnershipAnnotations:
    """The annotations that a writer puts on its objects; their prefix is its field manager.

    - "<field manager>/desired-hash": the hash of the desired state. Any change of it, even a removal, changes it.
    - "<field manager>/desired-keys": our entries of shared maps, so that they can be removed without those of others.
    - "<field manager>/owner-uid": the UID of the owner. It identifies a child even if its owner references and labels
      were changed.
    - "<field manager>/owner": the resource and name of the owner, such as "widgets.example.org/demo".
    """

    field_manager: str

    def __attrs_post_init__(self) -> None:
        if not is_dns_subdomain(self.field_manager):
            raise ValueError(
                f"field_manager: expected a DNS name such as widgets.example.org, got {self.field_manager!r}"
            )

    @property
    def hash_name(self) -> str:
        return f"{self.field_manager}/desired-hash"

    @property
    def keys_name(self) -> str:
        return f"{self.field_manager}/desired-keys"

    @property
    def owner_name(self) -> str:
        return f"{self.field_manager}/owner"

    @property
    def owner_uid_name(self) -> str:
        return f"{self.field_manager}/owner-uid"

    def owner_uid(self, meta: ObjectMeta) -> str:
        """The UID of the owner that an object was written for, "" without the annotation."""
        return meta.annotations.get(self.owner_uid_name, "")

    def owner_key(self, meta: ObjectMeta, kind: ResourceKind) -> ObjectKey | None:
        """The key of the owner of this kind that an object was written for, None if there is none."""
        name = meta.annotations.get(self.owner_name, "").removeprefix(f"{_resource(kind)}/")
        if not is_dns_subdomain(name):
            return None
        return ObjectKey(meta.namespace if kind.namespaced else "", name)

    def put_on(self, body: Json, owner: KubeObject | None = None) -> Json:
        """The desired body with the annotations."""
        keys = {".".join(path): sorted(entries) for path in SHARED_MAPS if (entries := inner(body, path))}
        metadata = body["metadata"]
        added = {self.hash_name: _hash(body)}
        if keys:
            added[self.keys_name] = orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()
        if owner is not None:
            added[self.owner_name] = f"{_resource(owner.kind)}/{owner.key.name}"
            added[self.owner_uid_name] = owner.metadata.uid
        annotations = {**metadata.get("annotations", {}), **added}
        return {**body, "metadata": {**metadata, "annotations": annotations}}

    def ours(self, live: Mapping[str, Any], path: tuple[str, ...]) -> frozenset[str]:
        """The entries of a shared map that our last write set; empty if the annotation is missing or invalid."""
        try:
            known = orjson.loads((inner(live, ("metadata", "annotations")) or {})[self.keys_name])
            entries = frozenset(known.get(".".join(path), ()))
        except (KeyError, TypeError, AttributeError, orjson.JSONDecodeError):
            entries = frozenset()
        names = {self.hash_name, self.keys_name, self.owner_name, self.owner_uid_name}
        return entries | names if path == ("metadata", "annotations") else entries


def desired_body(desired: TypedObject | DynamicObject, owner: KubeObject | None) -> Json:
    """The JSON of a desired object without the fields that only the server writes: UID, resource version, status.

    Raises:
        OwnerError: the owner cannot own this object.
        ValueError: the object has no name.
    """
    meta = desired.metadata
    if not meta.name:
        raise ValueError(f"expected a name for the desired {desired.kind}, got none; generateName cannot be looked up")
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
        # The server stores it as data and never returns stringData.
        texts: Mapping[str, str] = body.pop("stringData") or {}
        plain = {name: b64encode(text.encode()).decode() for name, text in texts.items()}
        body["data"] = {**(body.get("data") or {}), **plain}
    return body


def inner(body: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path, None if it is absent."""
    value: Any = body
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _resource(kind: ResourceKind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _hash(body: Json) -> str:
    # The controller reference is compared on its own: a recreated owner is no change of the desired state.
    metadata = {name: value for name, value in body["metadata"].items() if name != "ownerReferences"}
    text = orjson.dumps({**body, "metadata": metadata}, option=orjson.OPT_SORT_KEYS)
    return sha256(text).hexdigest()[:_HASH_LENGTH]
