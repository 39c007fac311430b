"""The operator on the page runs as it stands there."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.plugin import AccountFactory

PAGE = Path(__file__).resolve().parents[2] / "docs" / "controllers.md"
RIGHTS = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "create", "update"]},
]


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_operator_makes_a_secret_beside_a_config_map(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory, tmp_path: Path
) -> None:
    program = tmp_path / "mirror.py"
    program.write_text(blocks()[0])
    environment = {**os.environ, "KUBECONFIG": str(kube_account(cluster_rules=RIGHTS).kubeconfig)}
    admin = kube_cluster.admin()

    with subprocess.Popen(
        [sys.executable, str(program)], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        body = {"metadata": {"name": "seen", "labels": {"mirror": "yes"}}, "data": {"a": "1"}}
        admin.create(f"/api/v1/namespaces/{kube_namespace}/configmaps", body)
        kube_cluster.kubectl("wait", "-n", kube_namespace, "secret/seen", "--for=create", "--timeout=60s")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        errors = process.stderr.read()

    secret = admin.get(f"/api/v1/namespaces/{kube_namespace}/secrets/seen")
    assert (process.returncode, errors) == (0, "")
    assert secret["data"] == {"a": "MQ=="}
    assert secret["metadata"]["ownerReferences"][0]["name"] == "seen"


def test_the_other_blocks_run() -> None:
    for block in blocks()[1:]:
        exec(compile(block, str(PAGE), "exec"), {})  # noqa: S102 - our own page
