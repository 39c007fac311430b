"""The state of a cluster without what differs from run to run though nobody did anything otherwise."""

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
# In every namespace, made by the cluster.
_FURNITURE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The writer of `gpuruntime.control` leaves a hash of what was desired, in which the name of the namespace has a part.
_HASH_MARK = "/desired-hash"
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")

Object = Mapping[str, Any]


def normalise(
    objects: Iterable[Object],
    namespaces: Mapping[str, str],
    ignoring: Sequence[str] = (),
    alike: Sequence[tuple[str, str]] = (),
) -> list[dict[str, Any]]:
    """The objects as they would be in every run, in an order that depends on nothing else.

    Namespaces are called by their roles, objects with a generated name by what it was generated from, UIDs by their
    objects, also where they are mentioned in a string; a point in time is just that. An observed generation is the
    current one or an old one. Left out are what the cluster puts into every namespace, and the fields of
    `ALWAYS_IGNORED` and `ignoring`: dotted paths, `*` for every element of a list or mapping. Last, in every string,
    what matches a regular expression of `alike` is replaced by the text beside it, for names that are made of UIDs say.
    """
    ours = [obj for obj in objects if (obj.get("kind"), obj["metadata"]["name"]) not in _FURNITURE]
    rename = _renaming(ours, namespaces, alike)
    ignored = {tuple(path.split(".")) for path in (*ALWAYS_IGNORED, *ignoring)}
    plain = [_plain(_observed(obj), rename, ignored) for obj in ours]
    return sorted(plain, key=lambda obj: (_identity(obj), json.dumps(obj, sort_keys=True)))


def differences(expected: Any, found: Any) -> str:
    """What a person has to know of the difference between two states; empty if there is none.

    Of objects that are too many or too few only the number is told.
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
    objects: Sequence[Object], namespaces: Mapping[str, str], alike: Sequence[tuple[str, str]]
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
        for pattern, replacement in alike:
            text = re.sub(pattern, replacement, text)
        return text

    return rename


def _observed(obj: Object) -> Any:
    """Say of each observed generation whether it is the object's."""
    generation = obj["metadata"].get("generation")

    def say(value: Any) -> Any:
        match value:
            case Mapping():
                return {
                    key: ("current" if part == generation else "old") if key == "observedGeneration" else say(part)
                    for key, part in value.items()
                }
            case list():
                return [say(part) for part in value]
        return value

    return say(obj)


def _plain(value: Any, rename: Callable[[str], str], ignored: set[tuple[str, ...]]) -> Any:
    def inner(key: str) -> set[tuple[str, ...]]:
        return {path[1:] for path in ignored if path and path[0] in (key, "*")}

    match value:
        case Mapping():
            return {
                rename(key): _plain(part, rename, inner(key))
                for key, part in value.items()
                if () not in inner(key) and not key.endswith(_HASH_MARK)
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
    lines = unified_diff(before.splitlines(), after.splitlines(), "undisturbed", "this run", lineterm="", n=5)
    return "\n".join(lines)


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str)


def _is_objects(state: Any) -> bool:
    return isinstance(state, list) and all(isinstance(obj, dict) and "metadata" in obj for obj in state)
