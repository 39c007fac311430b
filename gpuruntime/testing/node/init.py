"""Process 1 of a real node: prepares its namespaces, runs its programs, reaps orphans. Standard library only.

`init.py PLAN` runs inside new namespaces; PLAN is a file of JSON that `configuration.init_plan` describes. The file
descriptor `machine_network` is of the machine's network namespace: from there it makes the link between the two, so
that the link belongs to the node and disappears with it.

A program that ends is started again after a second, as an init system does. One that ends again and again ends the
node, with its name and exit code on standard error.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["main"]

_RESTART_SECONDS = 1.0
_MOST_RESTARTS = 5


def _run(*argv: str, inherited: Sequence[int] = ()) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, pass_fds=inherited)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip()}")


def _make_link(plan: Mapping[str, Any]) -> None:
    machine: int = plan["machine_network"]
    machine_side = ("nsenter", f"--net=/proc/self/fd/{machine}", "--")

    def outside(*argv: str) -> None:
        _run(*machine_side, *argv, inherited=(machine,))

    link, peer = plan["link"], "eth0"
    # Of a node that was killed: the kernel removes its link a moment after its last process.
    subprocess.run([*machine_side, "ip", "link", "delete", link], capture_output=True, check=False, pass_fds=(machine,))
    outside("ip", "link", "add", link, "type", "veth", "peer", "name", peer, "netns", "1")
    outside("ip", "address", "add", f"{plan['machine']}/30", "dev", link)
    outside("ip", "link", "set", link, "up")
    outside("ip", "route", "add", plan["pods"], "via", plan["node"])
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", f"{plan['node']}/30", "dev", peer)
    _run("ip", "link", "set", peer, "up")
    _run("ip", "route", "add", "default", "via", plan["machine"])
    # A Service that kube-proxy does not know yet is refused at once. kube-proxy drops such packets, in a later chain of
    # this hook: a client would wait for the next of its attempts, which is up to half a minute away.
    chain = "ip real-node unknown-services"
    services = f"add rule {chain} ip daddr {plan['services']}"
    rules = [
        "add table ip real-node",
        f"add chain {chain} {{ type filter hook forward priority -200; }}",
        f"{services} meta l4proto tcp reject with tcp reset",
        f"{services} reject",
    ]
    _run("nft", "; ".join(rules))
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _mount(plan: Mapping[str, Any]) -> None:
    """Cover what the node's programs write to. What they need below a covered directory is shown there again."""
    sources = {target: os.open(source, os.O_PATH) for target, source in plan["binds"].items()}
    for path in plan["kept"]:
        if any(path.startswith(f"{covered}/") for covered in plan["covered"]):
            sources[path] = os.open(path, os.O_PATH)
    for covered in plan["covered"]:
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", covered)
    for target, descriptor in sources.items():
        Path(target).mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", "--no-canonicalize", f"/proc/self/fd/{descriptor}", target, inherited=(descriptor,))
        os.close(descriptor)
    # The kubelet sets these for the whole machine. It reads the wanted values instead, and leaves the machine alone.
    for name, value in plan["kernel_settings"].items():
        shown = Path("/run/kernel-settings", name)
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(value)
        if Path("/proc/sys", name).exists():
            _run("mount", "--bind", str(shown), f"/proc/sys/{name}")
    _run("mount", "--make-rshared", "/")  # volumes of pods may propagate mounts


class _Programs:
    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._plan = plan
        self._running: dict[int, Mapping[str, Any]] = {}
        self._restarts: dict[str, list[float]] = {}

    def start(self, program: Mapping[str, Any]) -> None:
        if "after" in program:
            _await_socket(program["after"])
        argv = program["argv"]
        machine = self._plan["machine_network"]
        if program.get("outside"):
            argv = ["nsenter", f"--net=/proc/self/fd/{machine}", "--", *argv]
        with Path(program["log"]).open("ab") as log:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._plan["environment"],
                pass_fds=(machine,) if program.get("outside") else (),
            )
        self._running[child.pid] = program
        child.returncode = 0  # waited for below, together with orphans

    def run(self) -> None:
        while True:
            pid, status = os.wait()
            program = self._running.pop(pid, None)
            if program is None:
                continue
            code, now = os.waitstatus_to_exitcode(status), time.monotonic()
            recent = [at for at in self._restarts.get(program["name"], []) if now - at < 60]
            if len(recent) == _MOST_RESTARTS:
                raise SystemExit(
                    f"{program['name']} ends again and again, with exit code {code}; log: {program['log']}"
                )
            self._restarts[program["name"]] = [*recent, now]
            time.sleep(_RESTART_SECONDS)
            self.start(program)


def _await_socket(path: str) -> None:
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(path)
            except OSError:
                time.sleep(0.02)  # a socket that does not exist yet has no event
            else:
                return


def main(argv: list[str]) -> None:
    """Run the node until killed."""
    plan = json.loads(Path(argv[1]).read_text())
    plan["machine_network"] = int(argv[2])
    os.environ.update(plan["environment"])
    socket.sethostname(plan["name"])
    _make_link(plan)
    _mount(plan)
    programs = _Programs(plan)
    for program in plan["programs"]:
        programs.start(program)
    programs.run()


if __name__ == "__main__":
    main(sys.argv)
