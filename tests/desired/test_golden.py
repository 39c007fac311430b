"""Golden files: golden/<case>.unit.yaml is rendered to golden/<case>.objects.yaml, and the stock unit of the pool in
golden/<case>.pool.yaml is golden/<case>.stock.yaml. The worker of the function in golden/<case>.function.yaml, and the
network policy, are golden/<case>.workers.yaml.

After an intended change, `python -m pytest tests/desired --update-golden` rewrites them. A change inside a pod template
restarts no running pod, see `gpuruntime.desired.units.pinning`; a change of `rendered-for` restarts all of them, and a
change of `pool-revision` replaces all stock, one of `function-revision` all workers.
"""

from pathlib import Path

import pytest
import yaml

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool
from gpuruntime.desired.functions.network_policy import worker_policy
from gpuruntime.desired.functions.workers import worker_name, worker_unit
from gpuruntime.desired.pools.units import stock_unit, unit_name
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.desired.units.service import access_url, unit_service
from gpuruntime.desired.validation import spec_violations
from gpuruntime.meta.codec import decode, encode
from tests.desired.renderings import ACTIVATOR_URL, WITH_SIDECAR

GOLDEN = Path(__file__).parent / "golden"


def units() -> list[Path]:
    return sorted(GOLDEN.glob("*.unit.yaml"))


def pools() -> list[Path]:
    return sorted(GOLDEN.glob("*.pool.yaml"))


def functions() -> list[Path]:
    return sorted(GOLDEN.glob("*.function.yaml"))


def case(path: Path) -> str:
    return path.name.split(".", maxsplit=1)[0]


def rendered(unit: GPUUnit, rendering: Rendering) -> str:
    service = unit_service(unit, rendering)
    objects = [encode(child) for child in (unit_deployment(unit, rendering), service) if child is not None]
    text = yaml.safe_dump_all(objects, sort_keys=False, width=120)
    return f"# URL: {access_url(unit, rendering) or 'none'}\n---\n{text}"


@pytest.mark.parametrize("path", units(), ids=case)
def test_a_unit_is_rendered_as_in_its_golden_file(path: Path, request: pytest.FixtureRequest) -> None:
    unit = decode(GPUUnit, yaml.safe_load(path.read_text()))
    expected = GOLDEN / f"{case(path)}.objects.yaml"

    text = rendered(unit, WITH_SIDECAR)

    if request.config.getoption("--update-golden", default=False):
        expected.write_text(text)
    assert text == expected.read_text()


@pytest.mark.parametrize("path", units(), ids=case)
def test_a_golden_unit_has_no_violations(path: Path) -> None:
    unit = decode(GPUUnit, yaml.safe_load(path.read_text()))

    assert spec_violations(unit.spec) == ()


@pytest.mark.parametrize("path", pools(), ids=case)
def test_a_pool_creates_the_stock_unit_of_its_golden_file(path: Path, request: pytest.FixtureRequest) -> None:
    pool = decode(StockPool, yaml.safe_load(path.read_text()))
    expected = GOLDEN / f"{case(path)}.stock.yaml"

    text = yaml.safe_dump(encode(stock_unit(pool, unit_name(pool, 7))), sort_keys=False, width=120)

    if request.config.getoption("--update-golden", default=False):
        expected.write_text(text)
    assert text == expected.read_text()
    assert spec_violations(pool.spec) == ()


@pytest.mark.parametrize("path", functions(), ids=case)
def test_a_function_has_the_workers_of_its_golden_file(path: Path, request: pytest.FixtureRequest) -> None:
    function = decode(GPUFunction, yaml.safe_load(path.read_text()))
    expected = GOLDEN / f"{case(path)}.workers.yaml"

    made = (
        worker_unit(function, worker_name(function, 7)),
        worker_policy(function, (), ACTIVATOR_URL, "gpuruntime-system"),
    )
    text = yaml.safe_dump_all(map(encode, made), sort_keys=False, width=120)

    if request.config.getoption("--update-golden", default=False):
        expected.write_text(text)
    assert text == expected.read_text()
    assert spec_violations(function.spec) == ()


def test_there_are_no_unused_golden_files() -> None:
    sources = (("objects", units()), ("stock", pools()), ("workers", functions()))
    expected = {f"{case(path)}.{form}.yaml" for form, paths in sources for path in paths}

    assert {path.name for form, _ in sources for path in GOLDEN.glob(f"*.{form}.yaml")} == expected
