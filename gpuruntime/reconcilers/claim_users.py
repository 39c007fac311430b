"""The pods that use PersistentVolumeClaims, those of other clients too, in a cache of little more than their names."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.names import STORAGE_ACCESSOR_LABEL, STORAGE_PREPARE_LABEL
from gpuruntime.control import Cache, Change, Index, Informer, Store, projected
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.quoting import beginning_of, end_of

__all__ = ["PodUse", "claims_of_change", "described", "pods_using", "summarize_use", "watch_claim_users"]

Raw = Mapping[str, Any]
_OVER: Final = frozenset({"Succeeded", "Failed"})
_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})
_NAMED: Final = 3


@frozen
class PodUse:
    """A pod and the PersistentVolumeClaims that it mounts.

    Args:
        is_over: whether all its containers have ended for good, so that it mounts nothing any more.
        owner: the name of its controller, such as a Job.
        prepares: the storage that it prepares, "" if none.
        accesses: the storage whose accessor it is, "" if none.
        words: of a pod that prepares: why it failed, or what it waits for.
    """

    name: str = ""
    claims: tuple[str, ...] = ()
    is_over: bool = False
    owner: str = ""
    prepares: str = ""
    accesses: str = ""
    words: str = ""


_NONE: Final = PodUse()


def watch_claim_users(cache: Cache, namespaces: Sequence[str] = ()) -> Informer[PodUse]:
    """The informer of all pods of these namespaces: a pod without PersistentVolumeClaims costs no more than its key."""
    return cache.informer(projected(Pod.KIND, summarize_use), namespaces=namespaces, indexes=[_BY_CLAIM])


def pods_using(pods: Store[PodUse], claim: ObjectKey) -> tuple[PodUse, ...]:
    """The pods that mount, or mounted, a PersistentVolumeClaim, in the order of their names."""
    return pods.list(claim.namespace, where={_BY_CLAIM.name: claim.name}).items


def described(pods: Iterable[PodUse]) -> str:
    """Some of the pods by name, and how many more there are; "" if there are none."""
    names = [pod.name for pod in pods]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'pod' if len(names) == 1 else 'pods'} {', '.join(names[:_NAMED])}{more}" if names else ""


def claims_of_change(change: Change[PodUse]) -> Iterable[ObjectKey]:
    """The PersistentVolumeClaims that a pod mounts, before and after a change; none if nothing relevant changed."""
    if change.before == change.after:
        return ()
    states = [state for state in (change.before, change.after) if state is not None]
    return dict.fromkeys(ObjectKey(change.key.namespace, claim) for state in states for claim in state.claims)


def summarize_use(raw: Raw) -> PodUse:
    """The summary of a pod as it is on the wire."""
    claims = tuple(_claims(raw))
    if not claims:
        return _NONE
    metadata, status = raw["metadata"], raw.get("status") or {}
    labels = metadata.get("labels") or {}
    prepares = labels.get(STORAGE_PREPARE_LABEL, "")
    return PodUse(
        metadata["name"],
        claims,
        is_over=status.get("phase") in _OVER,
        owner=next((each["name"] for each in metadata.get("ownerReferences") or () if each.get("controller")), ""),
        prepares=prepares,
        accesses=labels.get(STORAGE_ACCESSOR_LABEL, ""),
        words=_words(metadata["name"], status) if prepares else "",
    )


def _claims(raw: Raw) -> Iterable[str]:
    for volume in (raw.get("spec") or {}).get("volumes") or ():
        source = volume.get("persistentVolumeClaim")
        if source is not None:
            yield source["claimName"]


def _words(name: str, status: Raw) -> str:
    if status.get("phase") == "Failed" and status.get("reason"):
        return f"Pod {name}: {beginning_of(': '.join(filter(None, (status['reason'], status.get('message')))))}"
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"Pod {name} is not scheduled: {beginning_of(condition.get('message') or 'no reason given')}"
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return next(filter(None, (_trouble(name, container) for container in containers)), "")


def _trouble(pod: str, container: Raw) -> str:
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    place = f"Pod {pod} container {container['name']}"
    if waiting.get("reason") and waiting["reason"] not in _STARTING:
        return f"{place}: {beginning_of(': '.join(filter(None, (waiting['reason'], waiting.get('message')))))}"
    if ended.get("exitCode") or ended.get("signal"):
        said = end_of(ended.get("message") or "")
        return f"{place}: exit code {ended.get('exitCode') or 0}{': ' if said else ''}{said}"
    return ""


_BY_CLAIM: Final = Index("claim", _claims)
