"""The examples pass their tests when they are copied, with only our wheel installed."""

import shutil
from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from tests.docs.wheel_environment import ROOT, WheelEnvironment

EXAMPLES = ROOT / "examples"
RBAC = "website.__main__:build --account website-operator --namespace website-operator --out manifests/rbac.yaml"


def copied(name: str, directory: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / name, directory / name, ignore=shutil.ignore_patterns("__pycache__")))


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_an_example_passes_its_own_tests(name: str, wheel: WheelEnvironment, tmp_path: Path) -> None:
    example = copied(name, tmp_path)

    done = wheel.run([wheel.python, "-m", "pytest", "-q", "-W", "error"], example)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", ["crds website --out manifests/crds", f"rbac {RBAC}"], ids=["crds", "rbac"])
def test_the_manifests_are_current(what: str, wheel: WheelEnvironment, tmp_path: Path) -> None:
    example = copied("website", tmp_path)

    done = wheel.run(["gpuruntime", "generate", *what.split(), "--check"], example)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_api_server_accepts_the_manifests(kube_cluster: ClusterAccess) -> None:
    website = EXAMPLES / "website"
    kube_cluster.kubectl("apply", "-f", str(website / "manifests" / "crds"))
    kube_cluster.kubectl("create", "namespace", "website-operator")
    kube_cluster.kubectl("wait", "crd/websites.example.org", "--for=condition=Established", "--timeout=60s")
    files = [website / "manifests" / "operator.yaml", website / "manifests" / "rbac.yaml", website / "site.yaml"]

    named = [f"--filename={file}" for file in files]
    said = kube_cluster.kubectl("apply", "--dry-run=server", "--validate=strict", *named)

    kube_cluster.kubectl("delete", "namespace", "website-operator", "--wait=false")
    assert "website.example.org/shop created (server dry run)" in said
