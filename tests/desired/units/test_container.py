"""The placeholder command, run in a real shell."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.desired.units.container import runtime_container
from gpuruntime.meta.frozen_mapping import EMPTY
from gpuruntime.meta.objects import ObjectMeta

SHELLS = [shell for shell in ("sh", "bash", "dash") if shutil.which(shell)]


def a_unit(template: UnitTemplate) -> GPUUnit:
    return GPUUnit(ObjectMeta(name="a", namespace="b"), GPUUnitSpec("g1.1", template=template))


@pytest.mark.parametrize("shell", SHELLS)
def test_the_placeholder_sleeps_until_sigterm_and_exits_at_once(shell: str, tmp_path: Path) -> None:
    _, option, script = runtime_container(a_unit(UnitTemplate()), "busybox", EMPTY).command
    sleep = tmp_path / "sleep"
    sleep.write_text(f"#!/bin/sh\necho asleep\nexec {shutil.which('sleep')} $1\n")
    sleep.chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(
        [shell, option, script], env=path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asleep\n"

        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)

        # In a container all processes end with PID 1; here the sleep would continue for an hour.
        os.killpg(process.pid, signal.SIGKILL)
    assert code == 0


@pytest.mark.parametrize("template", [UnitTemplate(command=("serve",)), UnitTemplate(args=("--port", "80"))])
def test_a_unit_with_a_command_runs_it(template: UnitTemplate) -> None:
    container = runtime_container(a_unit(template), "busybox", EMPTY)

    assert (container.command, container.args) == (template.command, template.args)
