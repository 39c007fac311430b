"""What the spec of a worker must leave to its sidecar: names of variables, a port and a directory."""

from collections.abc import Callable
from typing import Any, Final

from gpuruntime.api.serverless import HEALTH_PORT, SOCKET_DIRECTORY
from gpuruntime.meta import Cel, Rule

__all__ = ["ENV_PREFIX", "worker_rules"]

ENV_PREFIX: Final = "SERVERLESS_"
"""The beginning of all variables that the operator sets in a worker."""

_SOCKETS: Final = f"{SOCKET_DIRECTORY}/"


def worker_rules(unless: str, is_worker: Callable[[Any], bool]) -> tuple[Rule, ...]:
    """The rules of a spec with `template` and `storage_mounts`.

    `unless` is a CEL expression that is true if the spec is not one of a worker; `is_worker` is its negation in Python.
    """
    return (
        Cel(
            f"{unless} || !has(self.template) || !has(self.template.envs)"
            f" || !self.template.envs.exists(env, env.name.startsWith('{ENV_PREFIX}'))",
            message=f"names that begin with {ENV_PREFIX} are set by the operator in workers; use another name",
            field_path=".template.envs",
            check=lambda spec: not is_worker(spec) or not _reserved(spec),
            expected=lambda spec: (
                f"other names than {', '.join(_reserved(spec))}: the operator sets those that begin with {ENV_PREFIX}"
            ),
        ),
        Cel(
            f"{unless} || !has(self.template) || !has(self.template.ports)"
            f" || !self.template.ports.exists(p, p.port == {HEALTH_PORT} && p.protocol == 'TCP')",
            message=f"port {HEALTH_PORT} is used by the sidecar; use another one",
            field_path=".template.ports",
            check=lambda spec: (
                not is_worker(spec)
                or not any(port.port == HEALTH_PORT and port.protocol == "TCP" for port in spec.template.ports)
            ),
            expected=f"other ports than {HEALTH_PORT}/TCP, which the sidecar serves",
        ),
        Cel(
            f"{unless} || !has(self.storageMounts) || !self.storageMounts.exists(mount,"
            f" (mount.mountPath + '/').startsWith('{_SOCKETS}') || '{_SOCKETS}'.startsWith(mount.mountPath + '/'))",
            message=f"{SOCKET_DIRECTORY} is shared with the sidecar; mount the storage elsewhere",
            field_path=".storageMounts",
            check=lambda spec: not is_worker(spec) or not any(map(_hides_sockets, spec.storage_mounts)),
            expected=f"paths that neither are in {SOCKET_DIRECTORY} nor contain it",
        ),
    )


def _reserved(spec: Any) -> tuple[str, ...]:
    return tuple(env.name for env in spec.template.envs if env.name.startswith(ENV_PREFIX))


def _hides_sockets(mount: Any) -> bool:
    path = f"{mount.mount_path}/"
    return path.startswith(_SOCKETS) or _SOCKETS.startswith(path)
