"""The manager on a real control plane, with the permissions of its manifests."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from gpuruntime.testing import ClusterAccess
from tests.ports import free_port

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests" / "overlays" / "local"
SYSTEM = "gpuruntime-system"
DEVELOPER = f"system:serviceaccount:{SYSTEM}:gpuruntime-developer"


def status(url: str, token: str = "", body: bytes | None = None) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - an http address
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - an http address
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_it_serves_when_its_cluster_appears_and_authenticates_callers_by_their_tokens(
    kube_cluster: ClusterAccess, tmp_path: Path
) -> None:
    kube_cluster.kubectl("apply", "--kustomize", str(MANIFESTS))
    own = kube_cluster.kubectl("create", "token", "gpuruntime-manager", "--namespace", SYSTEM).strip()
    token = ("create", "token", "gpuruntime-developer", "--namespace", SYSTEM)
    developer = kube_cluster.kubectl(*token, "--audience", "gpuruntime").strip()
    for_others = kube_cluster.kubectl(*token).strip()
    kubeconfig = tmp_path / "kubeconfig"
    port = free_port()
    flags = ["--http-addr", f"127.0.0.1:{port}", "--kubeconfig", str(kubeconfig), "--token-review"]
    flags += ["--grant", f"user:{DEVELOPER}=read"]
    command = [sys.executable, "-m", "gpuruntime.processes.command", "manager", *flags]
    units = f"http://127.0.0.1:{port}/api/v1/gpu-units"
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log) as process,
    ):
        while b"\n" not in (tmp_path / "log").read_bytes():  # the first log line is the only sign that it listens
            time.sleep(0.1)

        early = status(units, developer)
        kubeconfig.write_text(json.dumps(kube_cluster.kubeconfig_for(own)))
        while status(f"http://127.0.0.1:{port}/readyz") != 200:  # see above
            time.sleep(0.2)
        answers = [status(units), status(units, for_others), status(units, developer), status(units, developer, b"{}")]

        process.terminate()
        assert process.wait() == 0
    assert early == 503
    assert answers == [401, 401, 200, 403]
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line for line in lines if "orbidden" in line and '"status": 403' not in line] == []
