"""Golden files: golden/<case>.unit.yaml is rendered to golden/<case>.objects.yaml, and the stock unit of the pool in
golden/<case>.pool.yaml is golden/<case>.stock.yaml.

After an intended change, `python -m pytest tests/desired --update-golden` rewrites them. A change inside a pod template
restarts no running pod, see `gpuruntime.desired.units.pinning`; a change of `rendered-for` restarts all of them, and a
change of `pool-revision` replaces all stock.
"""

from pathlib import Path

import pytest
import yaml

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool
from gpuruntime.desired.pools.units import stock_unit, unit_name
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.desired.units.service import access_url, unit_service
from gpuruntime.desired.validation import spec_violations
from gpuruntime.meta.codec import decode, encode

GOLDEN = Path(__file__).parent / "golden"


def units() -> list[Path]:
    return sorted(GOLDEN.glob("*.unit.yaml"))


def pools() -> list[Path]:
    return sorted(GOLDEN.glob("*.pool.yaml"))


def case(path: Path) -> str:
    return path.name.removesuffix(".unit.yaml").removesuffix(".pool.yaml")


def rendered(unit: GPUUnit, rendering: Rendering) -> str:
    service = unit_service(unit, rendering)
    objects = [encode(child) for child in (unit_deployment(unit, rendering), service) if child is not None]
    text = yaml.safe_dump_all(objects, sort_keys=False, width=120)
    return f"# URL: {access_url(unit, rendering) or 'none'}\n---\n{text}"


@pytest.mark.parametrize("path", units(), ids=case)
def test_a_unit_is_rendered_as_in_its_golden_file(path: Path, request: pytest.FixtureRequest) -> None:
    unit = decode(GPUUnit, yaml.safe_load(path.read_text()))
    expected = GOLDEN / f"{case(path)}.objects.yaml"

    text = rendered(unit, Rendering())

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


def test_there_are_no_unused_golden_files() -> None:
    expected = {f"{case(path)}.objects.yaml" for path in units()} | {f"{case(path)}.stock.yaml" for path in pools()}

    assert {path.name for form in ("objects", "stock") for path in GOLDEN.glob(f"*.{form}.yaml")} == expected
