"""The life of a stack: start, run, stop."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import FrameType

from attrs import frozen

from gpuruntime.testing.processes.supervised import ChildProcesses, DirectoryInUseError
from hack.dev.stack.clusters import REAL_NODE, VOLUMES, WORKERS, Cluster, StackError, delete_leftover_kind
from hack.dev.stack.functions import NATS, deploy_sample, functions
from hack.dev.stack.gateway import install_gateway
from hack.dev.stack.install import account_kubeconfig, account_token, install
from hack.dev.stack.state import RunningStack, owner_of, ownership

__all__ = ["Interrupted", "choose_port", "run_stack", "stop_stack"]

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 90.0
_BANNER = """
The stack is up.

  API          {url}
  API docs     {url}/swagger/index.html
  files        {files}
  kubeconfig   {kubeconfig}

Try, in another terminal:

  eval "$(./hack/env)"
  kubectl get nodes -L nvidia.com/gpu.product
  kubectl apply -f manifests/samples/{sample}
  kubectl get gpuunits -A
  curl $GPURUNTIME_URL/api/v1/health
{invocation}
{ending} stops everything. Logs: {directory}"""
_INVOCATION = """\
  curl -X POST $GPURUNTIME_URL/api/v1/serverless/invocations -H 'Content-Type: application/json' \\
    -d '{"serverlessRequestID": "hello", "mode": "sync", "payload": {"name": "you"}}'
"""


class Interrupted(Exception):  # noqa: N818 - not a fault: the user wants it to end
    """SIGINT or SIGTERM."""


@frozen
class StackOptions:
    """The options of a stack."""

    directory: Path
    cluster: Callable[[], AbstractContextManager[Cluster]]
    port: int | None
    functions: Path
    sample: str = "gpuunit.yaml"


def run_stack(options: StackOptions) -> None:
    """Start everything, print how to use it, and run until a signal; then stop in reverse order."""
    options.directory.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    # Processes of a killed owner are exiting; ours start after them.
    with ownership(options.directory), ChildProcesses(options.directory / "processes", _STOP_SECONDS) as children:
        try:
            _keep(options, children)
        finally:
            RunningStack.withdraw(options.directory)


def _keep(options: StackOptions, children: ChildProcesses) -> None:
    port = choose_port(options.port)
    _say("starting the cluster ...")
    with (
        options.cluster() as cluster,
        functions(cluster, options.directory, options.functions) as serverless,
    ):
        _say("installing the manifests ...")
        install(cluster)
        identity = options.directory / "manager.kubeconfig"
        identity.touch(mode=0o600)
        identity.write_text(json.dumps(account_kubeconfig(cluster, account_token(cluster, "gpuruntime-manager"))))
        gateway = None
        if cluster.images is not None:
            _say("installing the access gateway ...")
            gateway = install_gateway(cluster, cluster.images, options.directory)
        _say("starting the manager ...")
        url = f"http://{_HOST}:{port}"
        log = options.directory / "manager.log"
        log.unlink(missing_ok=True)
        config = options.directory / "manager.yaml"
        accessor = {} if gateway is None else {"accessor": gateway.accessor_config}
        config.write_text(json.dumps({**accessor, **serverless}))
        flags = ["--config", str(config), "--http-addr", f"{_HOST}:{port}", "--kube-mode", "required"]
        command = [sys.executable, "-m", "gpuruntime.processes.command", "manager", *flags]
        children.start("manager", command, log, {"KUBECONFIG": str(identity)})
        _await_ready(children, url, log)
        if cluster.workers is not None:
            _say("starting the function hello ...")
            deploy_sample(cluster)
        token = account_token(cluster, "gpuruntime-developer", "gpuruntime")
        access_url = None if gateway is None else gateway.forward(children, options.directory)
        paths = (str(cluster.binaries), str(cluster.kubectl_cache))
        RunningStack(os.getpid(), url, str(cluster.kubeconfig), token, *paths, access_url).save(options.directory)
        ending = "Ctrl-C" if sys.stdin.isatty() else "./hack/down"
        files = access_url or "not served: simulated nodes run no accessors"
        words = {
            "url": url,
            "files": files,
            "kubeconfig": cluster.kubeconfig,
            "sample": options.sample,
            "invocation": "" if cluster.workers is None else _INVOCATION,
            "ending": ending,
        }
        _say(_BANNER.format(**words, directory=options.directory))
        try:
            while not children.exits():
                time.sleep(1.0)
        finally:
            _say("stopping ...")
            # The manager stops first, while its cluster still runs.
            if "manager" not in children.exits():
                children.stop("manager")
        raise StackError(f"the manager exited: {_last_line(log)}; log: {log}")


def _await_ready(children: ChildProcesses, url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=2):
                return
        except OSError as error:
            if children.exits():
                raise StackError(f"the manager did not start: {_last_line(log)}; log: {log}") from error
            if time.monotonic() > deadline:
                raise StackError(
                    f"the manager is not ready after {_START_SECONDS:.0f} s ({error}); log: {log}"
                ) from error
            time.sleep(0.1)  # there is no event to await


def stop_stack(directory: Path) -> str:
    """Stop the stack of `directory`, also after a crash, and wait until nothing of it runs; returns a message."""
    owner = owner_of(directory)
    if owner is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(owner, signal.SIGTERM)
    # The lock is free when the last process has exited, also after the owner was killed.
    try:
        with ExitStack() as ended:
            for name in ("processes", NATS, WORKERS, VOLUMES, REAL_NODE, "cluster", "kwok"):
                ended.enter_context(ChildProcesses(directory / name, _STOP_SECONDS))
            RunningStack.withdraw(directory)
            delete_leftover_kind(directory)
            for name in (NATS, WORKERS, VOLUMES, REAL_NODE, "cluster", "kwok"):
                shutil.rmtree(directory / name, ignore_errors=True)
    except DirectoryInUseError as error:
        raise StackError(f"{error}, and did not end within {_STOP_SECONDS:.0f} s") from None
    return "The stack was not running." if owner is None else "The stack is stopped."


def choose_port(wanted: int | None) -> int:
    """The port of the API: `wanted` or an error; without it 8080 if that is free, else any free port."""
    for port in (8080, 0) if wanted is None else (wanted,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError as error:
                if wanted is not None:
                    reason = (error.strerror or str(error)).lower()
                    raise StackError(
                        f"--port {wanted} cannot be used: {reason}; choose another or leave it out"
                    ) from None
                continue
            return int(probe.getsockname()[1])
    raise StackError("no port is free on 127.0.0.1")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second signal must not interrupt the clean-up that the first one started.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise Interrupted


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def _say(text: str) -> None:
    print(text, flush=True)
