"""The permissions that the operator declares are those that it uses, no more and no less."""

from pathlib import Path

from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.reconcilers.gpuunit.reconciler import install_gpuunit
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.permissions import usage
from tests.product_scenes import UNITS, create_unit, looking_on
from tests.reconcilers.unit_scenes import child_of, unit_world

PORTS = [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}]


async def test_a_unit_s_life_uses_every_right_and_asks_for_no_other(
    product: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, tmp_path: Path
) -> None:
    admin, path = product.admin(), f"{UNITS.format(kube_namespace)}/demo"
    async with (
        unit_world(product, kube_audit, [kube_namespace], [], tmp_path) as world,
        looking_on(product, kube_namespace) as observer,
    ):
        planned = Manager(OFFLINE_CREDENTIALS, ManagerOptions("planned"))
        install_gpuunit(planned, world.options)

        with kube_audit.recording() as seen:
            async with world.operator():
                key = create_unit(admin, kube_namespace, "demo", template={"ports": PORTS})
                await observer.ready(key)
                admin.merge(path, {"spec": {"image": "nginx", "template": {"ports": PORTS[:1]}}})
                await observer.ready(key, generation=2)
                admin.merge(path, {"spec": {"template": {"ports": []}}})
                await observer.services.until(lambda store: child_of(key) not in store)

        found = usage(planned.permissions, seen.requests, user=world.account.username)
    assert found.is_exact, found
