"""An administrator upgrades the controller managers to a release that renders pods differently."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from e2e.cluster_view import eventually
from e2e.host import PROGRAM
from e2e.installation import Installation
from e2e.installation_local import LocalReplicas
from e2e.later_release import GRACE_SECONDS
from e2e.names import CONTROLLERS, INSTANCES, STOCK
from e2e.stories.orders import SMALL, order, seed

LATER: Final = "e2e.later_release"


def test_no_pod_is_restarted_until_the_spec_of_its_unit_changes(
    exclusive: Installation, programs: LocalReplicas, suffix: str
) -> None:
    spec, kept, changed = f"upgraded-{suffix}", f"kept-{suffix}", f"changed-{suffix}"
    (stock,) = seed(exclusive, spec, 1)
    for name in (kept, changed):
        body = order(name, f"cold-{suffix}", coldStart=True, **SMALL)
        exclusive.api.post("/gpu-units?wait=Ready&timeout=90", body)
    units = [(stock["metadata"]["name"], STOCK), (kept, INSTANCES), (changed, INSTANCES)]
    before = [pod_of(exclusive, *unit) for unit in units]

    with later_release(programs):
        upgraded = [pod_of(exclusive, *unit) for unit in units]
        exclusive.api.put(f"/gpu-units/{changed}?wait=Ready&timeout=90", {"image": "nginx:1.28"})
        rendered = [pod_of(exclusive, *unit) for unit in units]
    downgraded = [pod_of(exclusive, *unit) for unit in units]

    assert [uid for uid, _ in upgraded] == [uid for uid, _ in before]
    assert rendered[:2] == upgraded[:2]
    assert [grace for _, grace in rendered] == [1, 10, GRACE_SECONDS]
    assert downgraded == rendered


@contextmanager
def later_release(replicas: LocalReplicas) -> Iterator[None]:
    """Run controller managers of a later release, which reconcile every unit; afterwards those of this release."""
    replicas.run_program(CONTROLLERS, LATER)
    try:
        replicas.roll(CONTROLLERS)
        replicas.wait_until_idle()
        yield
    finally:
        replicas.run_program(CONTROLLERS, PROGRAM)
        replicas.roll(CONTROLLERS)
        replicas.wait_until_idle()


def pod_of(installation: Installation, unit: str, namespace: str) -> tuple[str, int]:
    """The UID of the pod of a unit, and its termination grace period."""
    (pod,) = eventually(lambda: installation.cluster.pods(unit, namespace), f"a pod of {unit}")
    return pod.metadata.uid, pod.spec.termination_grace_period_seconds
