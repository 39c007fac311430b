"""What a worker on this machine runs, from its pod. Pure, except that it looks at files below one directory.

Any caller of the API can create a pod, and what runs here has the rights of this user. So the program is
`python -m gpuruntime.framework TARGET` and nothing else, TARGET is a file or module below one directory, and no
variable of the pod reaches the interpreter or the dynamic linker. The pod decides which of these functions runs, and
with which variables.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.serverless import SIDECAR_NAME
from gpuruntime.kube.builtin.containers import Container
from gpuruntime.kube.builtin.pods import Pod

__all__ = ["LOCAL_SIDECAR", "PodRefusedError", "WorkerPlan", "is_local", "plan_of"]

LOCAL_SIDECAR: Final = "local.invalid/gpuruntime"
"""Image of the sidecar of pods whose processes run on the machine of their fake node: kwok leaves these to us."""

_LOCAL: Final = "local.invalid/"
_SHAPE: Final = "python -m gpuruntime.framework TARGET"
_PYTHONS: Final = ("python", "python3")
_MODULE: Final = ("-m", "gpuruntime.framework")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODULE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
# What Python, the dynamic linker, the C library, OpenSSL and shells read: each can load code of the caller's choice.
_RESERVED: Final = re.compile(
    r"(PYTHON|LD_|DYLD_|GLIBC_|MALLOC_|GCONV_|OPENSSL_|SSL_|BASH_).*"
    r"|PATH|HOME|TMPDIR|TMP|TEMP|ENV|IFS|SHELL|LOCPATH|NLSPATH|TZDIR|RES_OPTIONS|HOSTALIASES",
    re.IGNORECASE,
)
_SIDECAR_PREFIX: Final = "SERVERLESS_"
_DEFAULT_STARTUP_SECONDS: Final = 600


class PodRefusedError(Exception):
    """The pod asks for something that this machine does not run. The message says what, and what is expected."""


@frozen
class WorkerPlan:
    """A worker: its variables, the target of its program, and how long that may take until it is healthy."""

    program: str
    target: str
    sidecar_env: Mapping[str, str]
    program_env: Mapping[str, str]
    startup_seconds: float


def is_local(pod: Pod) -> bool:
    """Whether the processes of the pod are to run on this machine: its sidecar has the image `LOCAL_SIDECAR`."""
    return any((container.image or "").startswith(_LOCAL) for container in pod.spec.init_containers)


def plan_of(pod: Pod, functions: Path) -> WorkerPlan:
    """The worker of a pod, with functions below the directory `functions`.

    Raises:
        PodRefusedError: the pod is not the one of a function, or wants anything else to run.
    """
    sidecars = [container for container in pod.spec.init_containers if container.name == SIDECAR_NAME]
    if len(sidecars) != 1 or len(pod.spec.init_containers) != 1 or len(pod.spec.containers) != 1:
        names = ", ".join(each.name for each in (*pod.spec.init_containers, *pod.spec.containers))
        raise PodRefusedError(f"containers: expected {SIDECAR_NAME} and one program, got {names or 'none'}")
    (program,) = pod.spec.containers
    return WorkerPlan(
        program=program.name,
        target=_target(_given_target(program), functions),
        sidecar_env=_of_sidecar(_variables(sidecars[0])),
        program_env=_of_program(_variables(program)),
        startup_seconds=_startup_seconds(program),
    )


def _given_target(program: Container) -> str:
    words = (*program.command, *program.args)
    if len(words) != len(_MODULE) + 2 or words[0] not in _PYTHONS or words[1:-1] != _MODULE:
        given = " ".join(words) or "the command of the image"
        raise PodRefusedError(f"command: local workers run `{_SHAPE}` only, got `{given}`")
    return words[-1]


def _target(target: str, functions: Path) -> str:
    """The target for the framework, which is started in the directory of functions."""
    where, separator, name = target.rpartition(":")
    # A dotted name would reach what the module imports, such as `shutil.rmtree`.
    if not separator or not _IDENTIFIER.fullmatch(name):
        raise PodRefusedError(f"command: expected module:function or file.py:function as TARGET, got {target!r}")
    root = functions.resolve()
    if where.endswith(".py"):
        return f"{_below(root, root / where, target)}:{name}"
    if not _MODULE_NAME.fullmatch(where):
        raise PodRefusedError(f"command: expected module:function or file.py:function as TARGET, got {target!r}")
    top, path = where.partition(".")[0], root.joinpath(*where.split("."))
    # These are imported before the framework looks for the module, so that no file could take their place.
    if top in sys.stdlib_module_names or top == "gpuruntime":
        raise PodRefusedError(f"command: module {top!r} of TARGET {target!r} is not below {root}: rename the module")
    _below(root, path / "__init__.py" if path.is_dir() else path.with_suffix(".py"), target)
    return target


def _below(root: Path, path: Path, target: str) -> Path:
    found = path.resolve()
    if not found.is_relative_to(root) or not found.is_file():
        raise PodRefusedError(f"command: local workers run functions below {root} only, and {target!r} is not there")
    return found


def _variables(container: Container) -> dict[str, str]:
    references = [variable.name for variable in container.env if variable.value_from is not None]
    if references or container.env_from:
        names = ", ".join(references) or "envFrom"
        raise PodRefusedError(f"env: local workers read no Secret or ConfigMap, so expected plain values, got {names}")
    return {variable.name: variable.value or "" for variable in container.env}


def _of_sidecar(variables: dict[str, str]) -> dict[str, str]:
    refused = sorted(name for name in variables if not name.startswith(_SIDECAR_PREFIX))
    if refused:
        raise PodRefusedError(f"env: expected {_SIDECAR_PREFIX}... of a sidecar only, got {', '.join(refused)}")
    return variables


def _of_program(variables: dict[str, str]) -> dict[str, str]:
    refused = sorted(name for name in variables if _RESERVED.fullmatch(name))
    if refused:
        raise PodRefusedError(f"env: local workers do not set {', '.join(refused)}: expected other names")
    return variables


def _startup_seconds(program: Container) -> float:
    probe: Mapping[str, Any] = program.startup_probe or {}
    allowed = float(probe.get("periodSeconds", 0)) * float(probe.get("failureThreshold", 0))
    return allowed or _DEFAULT_STARTUP_SECONDS
