"""The generated manifests are current, and an API server accepts them."""

from pathlib import Path

from gpuruntime.testing import ClusterAccess
from hack.generators.generate import OUTPUTS, ROOT, main


def test_no_generated_manifest_is_stale() -> None:
    assert main(["--check"]) == 0, "run ./hack/generate"


def test_an_api_server_accepts_every_generated_manifest(kube_cluster: ClusterAccess) -> None:
    files = [Path(output[output.index("--out") + 1]) for output in OUTPUTS]
    # The others are configurations of programs, such as the users of NATS.
    outputs = [file for file in files if file.suffix in {"", ".yaml"}]
    kube_cluster.kubectl("apply", "--filename", str(ROOT / "manifests" / "platform" / "namespaces.yaml"))

    for output in outputs:
        source = "--kustomize" if (ROOT / output).is_dir() else "--filename"
        said = kube_cluster.kubectl("apply", "--dry-run=server", "--validate=strict", source, str(ROOT / output))

        assert all(line.endswith("(server dry run)") for line in said.splitlines())
