import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpuruntime.testing.processes.supervised import ChildProcesses, DirectoryInUseError, SupervisorError

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
IGNORE = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)"
STUBBORN = [sys.executable, "-c", f"{IGNORE}; time.sleep(600)"]


def await_end(pid: int) -> None:
    """Wait until the process is gone; the test's timeout limits the wait."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor, "rb"):
        select.select([descriptor], [], [])


def announcing(name: str, log: Path) -> list[str]:
    """A program that writes its name to `log` on SIGTERM."""
    script = f"""
import signal, sys, time
def end(*_):
    open({str(log)!r}, "a").write({name!r} + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(600)
"""
    return [sys.executable, "-c", script]


def start_ready(children: ChildProcesses, name: str, argv: list[str], log: Path) -> int:
    pid = children.start(name, argv, log)
    while "ready" not in log.read_text():
        time.sleep(0.01)
    return pid


def test_leaving_stops_the_youngest_first(tmp_path: Path) -> None:
    order = tmp_path / "order"

    with ChildProcesses(tmp_path) as children:
        for name in ("first", "second", "third"):
            start_ready(children, name, announcing(name, order), tmp_path / f"{name}.log")

    assert order.read_text().split() == ["third", "second", "first"]


def test_a_restart_does_not_change_the_order(tmp_path: Path) -> None:
    order = tmp_path / "order"

    with ChildProcesses(tmp_path) as children:
        for name in ("first", "second"):
            start_ready(children, name, announcing(name, order), tmp_path / f"{name}.log")
        children.stop("first")
        start_ready(children, "first", announcing("first again", order), tmp_path / "restarted.log")

    assert order.read_text().splitlines() == ["first", "second", "first again"]


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    with ChildProcesses(tmp_path) as children:
        pid = start_ready(children, "stubborn", STUBBORN, tmp_path / "log")

        code = children.stop("stubborn", grace=0.1)

        assert code == -signal.SIGKILL
        await_end(pid)


def test_an_exited_process_is_reported_with_its_code_and_can_be_restarted(tmp_path: Path) -> None:
    with ChildProcesses(tmp_path) as children:
        await_end(children.start("short", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log"))
        while not children.exits():
            time.sleep(0.01)

        assert children.exits() == {"short": 3}
        children.start("short", SLEEP, tmp_path / "log")
        assert children.exits() == {}


def test_the_error_for_a_missing_program_names_it(tmp_path: Path) -> None:
    with (
        ChildProcesses(tmp_path) as children,
        pytest.raises(SupervisorError, match=r"ghost.*/no/such/program"),
    ):
        children.start("ghost", ["/no/such/program"], tmp_path / "log")


def test_a_request_that_a_signal_interrupted_does_not_confuse_the_next(tmp_path: Path) -> None:
    class Interruption(Exception):  # noqa: N818 - not a fault
        pass

    def interrupt(*_: object) -> None:
        raise Interruption

    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ChildProcesses(tmp_path) as children:
            start_ready(children, "stubborn", STUBBORN, tmp_path / "log")
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))

            def stop_interrupted() -> None:
                timer.start()
                children.stop("stubborn", grace=5.0)

            with pytest.raises(Interruption):
                stop_interrupted()
            timer.join()

            assert children.exits() == {}
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_a_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with ChildProcesses(tmp_path), pytest.raises(DirectoryInUseError, match=str(tmp_path)), ChildProcesses(tmp_path):
        pass

    with ChildProcesses(tmp_path) as again:
        assert again.exits() == {}


def test_leaving_after_the_supervisor_died_frees_the_directory(tmp_path: Path) -> None:
    with ChildProcesses(tmp_path) as children:
        assert children._supervisor is not None
        children._supervisor.kill()
        await_end(children._supervisor.pid)
        with pytest.raises(SupervisorError):
            children.start("late", SLEEP, tmp_path / "log")

    with ChildProcesses(tmp_path) as again:
        assert again.exits() == {}


@pytest.mark.parametrize("victim", ["owner", "keeper"])
def test_killing_the_owner_or_the_supervisor_leaves_no_process(tmp_path: Path, victim: str) -> None:
    script = f"""
import sys
from pathlib import Path
from gpuruntime.testing.processes.supervised import ChildProcesses
with ChildProcesses(Path({str(tmp_path)!r})) as children:
    pid = children.start("sleeper", {SLEEP!r}, Path({str(tmp_path / "log")!r}))
    print(children._supervisor.pid, pid, flush=True)
    sys.stdin.read()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        keeper_pid, sleeper_pid = (int(word) for word in owner.stdout.readline().split())

        os.kill(owner.pid if victim == "owner" else keeper_pid, signal.SIGKILL)
        await_end(keeper_pid)
        await_end(sleeper_pid)
        owner.kill()

    with ChildProcesses(tmp_path, lock_timeout=10) as children:
        assert children.exits() == {}
