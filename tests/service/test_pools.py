from gpuruntime.api.placement import UnitToleration
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.desired.validation import spec_violations
from gpuruntime.service.pools import POOL_CREATION, CreatePool


def test_a_request_violates_the_rules_that_the_reconciler_of_pools_reports() -> None:
    spec = StockPoolSpec("g1.1", replicas=1, tolerations=(UnitToleration(),), runtime_class_name="No_Such Name")

    found = tuple(POOL_CREATION.violations(CreatePool("warm", spec)))

    assert [violation.path for violation in found] == ["tolerations[0].key", "runtimeClassName"]
    assert [f"spec.{violation}" for violation in found] == [str(violation) for violation in spec_violations(spec)]


def test_violations_of_the_schema_come_first() -> None:
    spec = StockPoolSpec("g1.1", replicas=-1, cpu="0.0001", runtime_class_name="No_Such Name")

    found = POOL_CREATION.violations(CreatePool("warm", spec))

    assert [violation.path for violation in found] == ["replicas", "cpu", "runtimeClassName"]
