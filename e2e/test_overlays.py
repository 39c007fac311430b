"""The overlays of stories in another cluster, as kustomize renders them: nothing is installed here."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.host import REPLICAS
from e2e.names import RUNTIME_APIS, SYSTEM
from e2e.overlays import OVERLAYS, write_overlay
from tests.manifests.rendered import MANIFESTS, Rendered, rendered

CALLER = "gpuruntime-developer"


@pytest.mark.parametrize("overlay", [None, *OVERLAYS])
def test_every_process_runs_the_image_of_this_machine(overlay: str | None, tmp_path: Path) -> None:
    written = rendered(write_overlay(tmp_path / "overlay", overlay))

    pods = [deployment["spec"]["template"]["spec"] for deployment in written.of("Deployment")]
    assert {container["image"] for pod in pods for container in pod["containers"]} == {"gpuruntime:dev"}


def test_replicas_are_those_that_the_overlay_declares_or_without_a_name_those_that_stories_need(tmp_path: Path) -> None:
    declared = {overlay: replicas(rendered(MANIFESTS / "overlays" / overlay)) for overlay in OVERLAYS}

    written = {overlay: replicas(rendered(write_overlay(tmp_path / overlay, overlay))) for overlay in OVERLAYS}
    unnamed = replicas(rendered(write_overlay(tmp_path / "unnamed", None)))

    needed = {f"gpuruntime-{process}": count for process, count in REPLICAS.items()}
    assert written == declared
    assert unnamed == {**declared["dev"], **needed} != declared["dev"]


@pytest.mark.parametrize("overlay", [None, *OVERLAYS])
def test_the_caller_of_the_stories_is_an_account_of_the_product_and_an_operator(
    overlay: str | None, tmp_path: Path
) -> None:
    written = rendered(write_overlay(tmp_path / "overlay", overlay))

    account = written.named("ServiceAccount", CALLER)["metadata"]
    assert account["namespace"] == SYSTEM
    assert account["labels"] == {"app.kubernetes.io/part-of": "gpuruntime"}
    assert api_config(written)["auth"]["grants"] == [f"user:system:serviceaccount:{SYSTEM}:{CALLER}=operator"]


def test_production_differs_from_what_operators_install_by_the_caller_and_by_no_prometheus(tmp_path: Path) -> None:
    installed = rendered(MANIFESTS / "overlays" / "production")

    written = rendered(write_overlay(tmp_path / "overlay", "production"))

    without_prometheus = Counter(kind for kind in kinds(installed) if not kind[0].startswith("monitoring.coreos.com/"))
    assert without_prometheus != Counter(kinds(installed))
    assert Counter(kinds(written)) == without_prometheus + Counter([("v1", "ServiceAccount")])
    config = api_config(installed)
    config["auth"]["grants"] = api_config(written)["auth"]["grants"]
    assert api_config(written) == config


def replicas(overlay: Rendered) -> dict[str, int]:
    return {one["metadata"]["name"]: one["spec"]["replicas"] for one in overlay.of("Deployment")}


def kinds(overlay: Rendered) -> list[tuple[str, str]]:
    return [(one["apiVersion"], one["kind"]) for one in overlay.objects]


def api_config(overlay: Rendered) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(overlay.config(RUNTIME_APIS))
    return config
