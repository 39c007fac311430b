"""Which worker a token belongs to: TokenReview names the pod, and the pod names its function.

The pod is looked up in the cache, and read from the API server if the cache has not seen it yet. A token of a pod that
is gone, or that another pod with its name has replaced, is refused by the review.
"""

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.names import FUNCTION_LABEL, UNIT_LABEL
from gpuruntime.api.serverless import TOKEN_AUDIENCE
from gpuruntime.control import Cache, Informer, projected
from gpuruntime.endpoints.auth.access_control import unauthorized
from gpuruntime.endpoints.auth.token_review import ReviewedUsers
from gpuruntime.endpoints.server.errors import CODES, ApiError
from gpuruntime.kube import Client, NotFoundError
from gpuruntime.kube.builtin.authentication import UserInfo
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey

__all__ = ["WorkerIdentities", "WorkerIdentity", "WorkerPod", "worker_pods"]

_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_ACCOUNT: Final = "system:serviceaccount:"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@frozen
class WorkerPod:
    """What is kept of the pod of a worker."""

    key: ObjectKey
    uid: str
    function: str
    unit: str
    has_ended: bool = False


@frozen
class WorkerIdentity:
    """A worker: the function whose work it gets, its pod, and the name of its unit."""

    function: ObjectKey
    pod: ObjectKey
    pod_uid: str
    unit: str


def worker_pods(cache: Cache, namespaces: tuple[str, ...]) -> Informer[WorkerPod]:
    """The informer of the pods of workers."""
    return cache.informer(projected(Pod.KIND, _kept), namespaces=namespaces, labels=FUNCTION_LABEL)


class WorkerIdentities:
    """Finds workers by their tokens."""

    def __init__(self, client: Client, pods: Informer[WorkerPod], namespaces: tuple[str, ...]) -> None:
        self._client = client
        self._users = ReviewedUsers(client, TOKEN_AUDIENCE)
        self._pods = pods
        self._namespaces = frozenset(namespaces)

    async def of(self, token: str) -> WorkerIdentity:
        """The worker that a token belongs to.

        Raises:
            ApiError: 401, the token is not valid for an activator; 403, its pod is not a worker.
            KubeError: the API server does not answer.
        """
        user = await self._users.user_of(token)
        if user is None:
            raise unauthorized(f"expected a token of a pod with the audience {TOKEN_AUDIENCE}", error="invalid_token")
        pod, uid = _pod_of(user)
        if pod is None or pod.namespace not in self._namespaces:
            raise _no_worker(f"caller {user.username}: the token is bound to no pod in a namespace of functions")
        found = await self._find(pod, uid)
        if found is None or not found.function or not found.unit:
            raise _no_worker(f"pod {pod}: it is not a worker of a function")
        if found.has_ended:
            raise _no_worker(f"pod {pod}: it has ended")
        return WorkerIdentity(ObjectKey(pod.namespace, found.function), pod, uid, found.unit)

    async def _find(self, key: ObjectKey, uid: str) -> WorkerPod | None:
        found = self._pods.store.get(key)
        if found is not None and found.uid == uid:
            return found
        try:
            pod = await self._client.get(Pod, key.name, key.namespace)
        except NotFoundError:
            return None
        meta = pod.metadata
        kept = WorkerPod(
            key,
            meta.uid,
            meta.labels.get(FUNCTION_LABEL, ""),
            meta.labels.get(UNIT_LABEL, ""),
            pod.status.phase in _ENDED,
        )
        return kept if kept.uid == uid else None


def _pod_of(user: UserInfo) -> tuple[ObjectKey | None, str]:
    namespace, _, _ = user.username.removeprefix(_ACCOUNT).partition(":")
    name, uid = (next(iter(user.attributes.get(key, ())), "") for key in (_POD_NAME, _POD_UID))
    if not user.username.startswith(_ACCOUNT) or not namespace or not name or not uid:
        return None, ""
    return ObjectKey(namespace, name), uid


def _kept(raw: Mapping[str, Any]) -> WorkerPod:
    meta = raw["metadata"]
    labels = meta.get("labels") or {}
    return WorkerPod(
        ObjectKey(meta["namespace"], meta["name"]),
        meta["uid"],
        labels.get(FUNCTION_LABEL, ""),
        labels.get(UNIT_LABEL, ""),
        (raw.get("status") or {}).get("phase") in _ENDED,
    )


def _no_worker(message: str) -> ApiError:
    return ApiError(403, CODES[403], message)
