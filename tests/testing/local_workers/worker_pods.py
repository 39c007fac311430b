"""Pods of workers as the product renders them, for the tests of local workers."""

from pathlib import Path
from typing import Any

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID
from gpuruntime.api.serverless import UnitServerless
from gpuruntime.api.unit_template import UnitEnv, UnitTemplate
from gpuruntime.desired.rendering import Rendering, SidecarRendering
from gpuruntime.desired.units.pod_template import pod_template
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import FrozenDict, ObjectMeta
from gpuruntime.testing.local_workers import LOCAL_SIDECAR

__all__ = ["ECHO", "command_of", "worker_pod", "write_function"]

ECHO = "def echo(payload, context):\n    return payload\n"
# No activator listens there: a worker is ready without one.
_NO_ACTIVATOR = "ws://127.0.0.1:9"


def write_function(directory: Path, name: str = "echo.py", code: str = ECHO) -> Path:
    file = directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)
    return file


def command_of(target: str) -> tuple[str, ...]:
    return ("python", "-m", "gpuruntime.framework", target)


def worker_pod(
    namespace: str,
    name: str = "worker",
    *,
    command: tuple[str, ...] = command_of("echo.py:echo"),
    envs: dict[str, str] | None = None,
    grace: int = 60,
    image: str = LOCAL_SIDECAR,
    **serverless: Any,
) -> Pod:
    """The pod of a worker of the function `echo`."""
    unit = GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels=FrozenDict({FUNCTION_LABEL: "echo"}),
            annotations=FrozenDict({FUNCTION_REQUEST_ID: "echo"}),
        ),
        spec=GPUUnitSpec(
            spec_name="g1.0",
            image="python:3.12",
            termination_grace_period_seconds=grace,
            template=UnitTemplate(
                command=command, envs=tuple(UnitEnv(name=key, value=value) for key, value in (envs or {}).items())
            ),
            serverless=UnitServerless(request_id="echo", **serverless),
        ),
    )
    template = pod_template(unit, Rendering(sidecar=SidecarRendering(image, _NO_ACTIVATOR)))
    meta = evolve(template.metadata, name=name, namespace=namespace)
    # The class of the product is not installed here.
    return Pod(metadata=meta, spec=evolve(template.spec, priority_class_name=None))
