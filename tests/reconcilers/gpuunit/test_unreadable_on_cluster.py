"""Units that were stored when the definition had other rules, on a control plane whose definition changes."""

from copy import deepcopy
from pathlib import Path
from typing import Any

from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions
from gpuruntime.testing import AdminClient, LocalCluster, RefusedError
from tests.product_scenes import eventually, install_product, rested
from tests.reconcilers.unit_scenes import operating

HOME = "runtime-instance"
UNITS = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{HOME}/gpuunits"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpuunits.runtime.lokiwager.io"


def is_stored(admin: AdminClient, unit: dict[str, Any]) -> bool:
    """Whether the API server has taken the unit: a changed definition takes a moment to be in force."""
    try:
        admin.create(UNITS, unit)
    except RefusedError:
        return False
    return True


def is_refused(admin: AdminClient, unit: dict[str, Any]) -> bool:
    try:
        admin.create(f"{UNITS}?dryRun=All", unit)
    except RefusedError:
        return True
    return False


def condition(admin: AdminClient) -> tuple[str, str]:
    """Reason and message of the unit's Ready condition."""
    found = admin.get(f"{UNITS}/old").get("status", {}).get("conditions", [])
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


async def test_a_unit_that_was_stored_under_other_rules_says_so_and_recovers_when_it_is_mended(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "cluster") as cluster:
        admin, credentials = cluster.access.admin(), from_kubeconfig(cluster.access.kubeconfig)
        install_product(admin)
        admin.create("/api/v1/namespaces", {"metadata": {"name": HOME}})
        rules = admin.get(DEFINITION)["spec"]["versions"]
        earlier = deepcopy(rules)
        spec = earlier[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        spec["template"]["properties"]["command"] = {"type": "string"}
        unit = {"metadata": {"name": "old"}, "spec": {"specName": "g1.1", "template": {"command": "sleep"}}}
        unit |= {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "GPUUnit"}
        admin.merge(DEFINITION, {"spec": {"versions": earlier}})
        await eventually(lambda: is_stored(admin, unit))
        admin.merge(DEFINITION, {"spec": {"versions": rules}})
        await eventually(lambda: is_refused(admin, unit | {"metadata": {"name": "new"}}))

        async with operating(credentials, GPUUnitOptions()):
            await eventually(lambda: condition(admin)[0] == "InvalidSpec")
        said, reported = condition(admin), admin.get(f"{UNITS}/old")
        async with operating(credentials, GPUUnitOptions()) as operator:
            await rested(operator.controller)
            unchanged = admin.get(f"{UNITS}/old")
            admin.merge(f"{UNITS}/old", {"spec": {"template": {"command": ["sleep"]}}})
            await eventually(lambda: condition(admin)[0] == "UnitReady")

    assert "spec.template.command" in said[1]
    assert reported["status"]["phase"] == "Failed"
    assert unchanged["metadata"]["resourceVersion"] == reported["metadata"]["resourceVersion"]
