"""Normalisation: cluster state without the values that differ between equal runs, such as UIDs and timestamps."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import unified_diff
from typing import Any

__all__ = ["ALWAYS_IGNORED", "differences", "normalise"]

ALWAYS_IGNORED = (
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.managedFields",
    "spec.clusterIP",
    "spec.clusterIPs",
    "spec.ports.*.nodePort",
    "spec.nodeName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
# Created by Kubernetes in every namespace.
_BUILT_IN = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# `gpuruntime.control` annotates objects with a hash of the desired state, which depends on the name of the namespace.
_HASH_ANNOTATION = "/desired-hash"
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")

Object = Mapping[str, Any]


def normalise(
    objects: Iterable[Object],
    namespaces: Mapping[str, str],
    ignored_fields: Sequence[str] = (),
    replacements: Sequence[tuple[str, str]] = (),
) -> list[dict[str, Any]]:
    """Return the objects in a form, and in an order, that is the same in every run.

    Placeholders replace the names of namespaces (by role), generated names (by their prefix), UIDs (by their object)
    and timestamps, also inside longer strings. An observed generation becomes "current" or "old". Left out are the
    objects that Kubernetes creates in every namespace, and the fields of `ALWAYS_IGNORED` and `ignored_fields`: dotted
    paths, `*` for every element of a list or map. Last, `replacements` are applied to every string: pairs of a regular
    expression and the text that replaces its matches, for instance for names that contain UIDs.
    """
    ours = [obj for obj in objects if (obj.get("kind"), obj["metadata"]["name"]) not in _BUILT_IN]
    rename = _renaming(ours, namespaces, replacements)
    ignored = {tuple(path.split(".")) for path in (*ALWAYS_IGNORED, *ignored_fields)}
    plain = [_plain(_observed(obj), rename, ignored) for obj in ours]
    return sorted(plain, key=lambda obj: (_identity(obj), json.dumps(obj, sort_keys=True)))


def differences(expected: Any, found: Any) -> str:
    """Describe the difference between two states for a reader; "" if they are equal.

    For surplus and missing objects only the counts are given.
    """
    if expected == found:
        return ""
    if not (_is_objects(expected) and _is_objects(found)):
        return _diff(_text(expected), _text(found))
    counts = [Counter(map(_identity, state)) for state in (expected, found)]
    odd = {identity for identity in counts[0] | counts[1] if counts[0][identity] != counts[1][identity]}
    before, after = (
        "\n".join(f"{_identity(obj)}\n{_text(obj)}" for obj in state if _identity(obj) not in odd)
        for state in (expected, found)
    )
    numbers = [f"{name}: {counts[1][name]} instead of {counts[0][name]}" for name in sorted(odd)]
    return "\n".join([*numbers, *([_diff(before, after)] if before != after else [])])


def _renaming(
    objects: Sequence[Object], namespaces: Mapping[str, str], replacements: Sequence[tuple[str, str]]
) -> Callable[[str], str]:
    names: dict[str, str] = {name: f"<{role}>" for role, name in namespaces.items()}
    for obj in objects:
        metadata = obj["metadata"]
        stem = metadata.get("generateName")
        if stem and metadata["name"].startswith(stem):
            names[metadata["name"]] = f"{stem}*"
    for obj in objects:
        metadata = obj["metadata"]
        name = names.get(metadata["name"], metadata["name"])
        names[metadata["uid"]] = f"<uid of {obj.get('kind')} {name}>"
    known = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))

    def rename(text: str) -> str:
        text = known.sub(lambda found: names[found[0]], text) if names else text
        text = _TIME.sub("<time>", text)
        text = _TOKEN_VOLUME.sub("kube-api-access-*", _UUID.sub("<uid>", text))
        for pattern, replacement in replacements:
            text = re.sub(pattern, replacement, text)
        return text

    return rename


def _observed(obj: Object) -> Any:
    """Replace each observed generation by whether it is the object's current one."""
    generation = obj["metadata"].get("generation")

    def replace(value: Any) -> Any:
        match value:
            case Mapping():
                return {
                    key: ("current" if part == generation else "old") if key == "observedGeneration" else replace(part)
                    for key, part in value.items()
                }
            case list():
                return [replace(part) for part in value]
        return value

    return replace(obj)


def _plain(value: Any, rename: Callable[[str], str], ignored: set[tuple[str, ...]]) -> Any:
    def inner(key: str) -> set[tuple[str, ...]]:
        return {path[1:] for path in ignored if path and path[0] in (key, "*")}

    match value:
        case Mapping():
            return {
                rename(key): _plain(part, rename, inner(key))
                for key, part in value.items()
                if () not in inner(key) and not key.endswith(_HASH_ANNOTATION)
            }
        case list():
            return [_plain(part, rename, inner("*")) for part in value]
        case str():
            return rename(value)
    return value


def _identity(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{obj.get('kind')} {metadata.get('namespace', '')}/{metadata['name']}"


def _diff(before: str, after: str) -> str:
    lines = unified_diff(before.splitlines(), after.splitlines(), "reference run", "this run", lineterm="", n=5)
    return "\n".join(lines)


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str)


def _is_objects(state: Any) -> bool:
    return isinstance(state, list) and all(isinstance(obj, dict) and "metadata" in obj for obj in state)
