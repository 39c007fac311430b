"""The operations team upgrades the controller managers to a release that renders pods differently."""

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
    disturbed: Installation, programs: LocalReplicas, mark: str
) -> None:
    spec, kept, changed = f"upgraded-{mark}", f"kept-{mark}", f"changed-{mark}"
    (stock,) = seed(disturbed, spec, 1)
    for name in (kept, changed):
        body = order(name, f"cold-{mark}", coldStart=True, **SMALL)
        disturbed.api.post("/gpu-units?wait=Ready&timeout=90", body)
    places = [(stock["metadata"]["name"], STOCK), (kept, INSTANCES), (changed, INSTANCES)]
    before = [pod_of(disturbed, *place) for place in places]

    with later_release(programs):
        upgraded = [pod_of(disturbed, *place) for place in places]
        disturbed.api.put(f"/gpu-units/{changed}?wait=Ready&timeout=90", {"image": "nginx:1.28"})
        rendered = [pod_of(disturbed, *place) for place in places]
    downgraded = [pod_of(disturbed, *place) for place in places]

    assert [uid for uid, _ in upgraded] == [uid for uid, _ in before]
    assert rendered[:2] == upgraded[:2]
    assert [grace for _, grace in rendered] == [1, 30, GRACE_SECONDS]
    assert downgraded == rendered


@contextmanager
def later_release(replicas: LocalReplicas) -> Iterator[None]:
    """Controller managers of a later release, which have looked at every unit; those of this one again afterwards."""
    replicas.run_program(CONTROLLERS, LATER)
    try:
        replicas.roll(CONTROLLERS)
        replicas.rest()
        yield
    finally:
        replicas.run_program(CONTROLLERS, PROGRAM)
        replicas.roll(CONTROLLERS)
        replicas.rest()


def pod_of(installation: Installation, unit: str, namespace: str) -> tuple[str, int]:
    """The UID of the pod of a unit, and the seconds that it has to end."""
    (pod,) = eventually(lambda: installation.cluster.pods(unit, namespace), f"a pod of {unit}")
    return pod.metadata.uid, pod.spec.termination_grace_period_seconds
