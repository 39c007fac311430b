"""What a caller is told about a spec before anything is stored."""

from gpuruntime.api.placement import UnitToleration
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.desired.validation import stock_problems
from gpuruntime.service.objects.spec_checks import pool_problems


def test_a_caller_hears_of_a_pool_what_the_pool_would_say_itself() -> None:
    spec = StockPoolSpec("g1.1", 1, tolerations=(UnitToleration(),), runtime_class_name="No_Such Name")

    told = pool_problems(spec)

    assert [problem.partition(":")[0] for problem in told] == ["tolerations[0].key", "runtimeClassName"]
    assert [f"spec.{problem}" for problem in told] == [str(problem) for problem in stock_problems(spec)]


def test_what_no_server_would_store_is_told_first() -> None:
    told = pool_problems(StockPoolSpec("g1.1", -1, runtime_class_name="No_Such Name"))

    assert [problem.partition(":")[0] for problem in told] == ["replicas"]
