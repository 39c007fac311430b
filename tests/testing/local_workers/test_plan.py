"""What local workers run: functions below one directory, and nothing else that a pod may ask for."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from gpuruntime.kube.builtin.containers import Container, EnvVar
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import freeze
from gpuruntime.testing.local_workers.plan import PodRefusedError, is_local, plan_of
from tests.testing.local_workers.worker_pods import command_of, worker_pod, write_function


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    """A directory with functions, and one beside it with others."""
    write_function(tmp_path / "functions")
    write_function(tmp_path / "functions" / "team", "shout.py")
    write_function(tmp_path / "functions" / "package", "__init__.py")
    write_function(tmp_path / "elsewhere", "evil.py")
    (tmp_path / "functions" / "link.py").symlink_to(tmp_path / "elsewhere" / "evil.py")
    (tmp_path / "functions" / "os.py").write_text("")
    return tmp_path / "functions"


def changed(pod: Pod, **fields: Any) -> Pod:
    return evolve(pod, spec=evolve(pod.spec, **fields))


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ("echo.py:echo", "{functions}/echo.py:echo"),
        ("team/shout.py:echo", "{functions}/team/shout.py:echo"),
        ("{functions}/echo.py:echo", "{functions}/echo.py:echo"),
        ("team/../echo.py:echo", "{functions}/echo.py:echo"),
        ("echo:echo", "echo:echo"),
        ("team.shout:echo", "team.shout:echo"),
        ("package:echo", "package:echo"),
    ],
)
def test_a_function_below_the_directory_is_run(functions: Path, given: str, run: str) -> None:
    pod = worker_pod("red", command=command_of(given.format(functions=functions)))

    plan = plan_of(pod, functions)

    assert plan.target == run.format(functions=functions)


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("sh", "-c", "id"),
        ("python", "-c", "print(1)"),
        ("python", "echo.py"),
        ("/usr/bin/python", "-m", "gpuruntime.framework", "echo.py:echo"),
        ("python", "-m", "gpuruntime.framework"),
        ("python", "-m", "http.server", "8000"),
        ("python", "-i", "gpuruntime.framework", "echo.py:echo"),
        ("python", "-m", "gpuruntime.framework", "echo.py:echo", "--socket=/tmp/other"),
        ("python", "-m", "gpuruntime.framework", "--setup=x", "echo.py:echo"),
    ],
    ids=" ".join,
)
def test_another_command_is_refused(functions: Path, command: tuple[str, ...]) -> None:
    pod = worker_pod("red", command=command)

    with pytest.raises(PodRefusedError, match=r"local workers run `python -m gpuruntime\.framework TARGET` only"):
        plan_of(pod, functions)


@pytest.mark.parametrize(
    "target",
    [
        "../elsewhere/evil.py:echo",
        "{functions}/../elsewhere/evil.py:echo",
        "link.py:echo",
        "missing.py:echo",
        "team.py:echo",
        "evil:echo",
        "subprocess:run",
        "os:system",
        "gpuruntime.framework:serve",
        "echo.py",
        "echo.py:",
        ":echo",
        "echo.py:os.system",
        "..elsewhere.evil:echo",
        "echo.py:echo\n",
        "-c:echo",
    ],
)
def test_another_target_is_refused(functions: Path, target: str) -> None:
    pod = worker_pod("red", command=command_of(target.format(functions=functions)))

    with pytest.raises(PodRefusedError, match=r"^command: "):
        plan_of(pod, functions)


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "PATH", "HOME", "OPENSSL_CONF", "ENV"])
def test_a_variable_that_could_load_code_is_refused(functions: Path, name: str) -> None:
    pod = worker_pod("red", envs={name: "/x", "MODEL": "small"})

    with pytest.raises(PodRefusedError, match=f"^env: local workers do not set {name}: "):
        plan_of(pod, functions)


def test_a_variable_of_a_secret_is_refused(functions: Path) -> None:
    pod = worker_pod("red")
    secret = EnvVar("KEY", value_from=freeze({"secretKeyRef": {"name": "x", "key": "y"}}))
    container = evolve(pod.spec.containers[0], env=(secret,))

    with pytest.raises(PodRefusedError, match="expected plain values, got KEY"):
        plan_of(changed(pod, containers=(container,)), functions)


def test_other_containers_are_refused(functions: Path) -> None:
    pod = worker_pod("red")
    more = Container("more", image="x")

    for fields in ({"containers": (*pod.spec.containers, more)}, {"init_containers": (more,)}, {"containers": ()}):
        with pytest.raises(PodRefusedError, match=r"^containers: expected serverless-sidecar and one program"):
            plan_of(changed(pod, **fields), functions)


def test_variables_and_the_time_of_the_start_are_those_of_the_pod(functions: Path) -> None:
    pod = worker_pod("red", envs={"MODEL": "small"}, concurrency=3)

    plan = plan_of(pod, functions)

    assert plan.program == "runtime-worker"
    assert plan.program_env["MODEL"] == "small"
    assert plan.program_env["SERVERLESS_CONCURRENCY"] == plan.sidecar_env["SERVERLESS_CONCURRENCY"] == "3"
    assert plan.startup_seconds == 600


def test_the_image_of_the_sidecar_decides_who_runs_a_pod() -> None:
    assert is_local(worker_pod("red"))
    assert not is_local(worker_pod("red", image="example.com/gpuruntime:1"))
