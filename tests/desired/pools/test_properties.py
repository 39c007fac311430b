"""Properties of pool plans in every state, and convergence."""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool
from gpuruntime.desired.pools.plan import next_steps, pool_status
from gpuruntime.desired.pools.units import is_ready_stock, serial_of
from gpuruntime.desired.provenance import claim_of
from tests.desired.pool_scenes import NOW, STATES, active, claimed, pool, stock

LOOKS = st.tuples(st.sampled_from(STATES), st.booleans(), st.sampled_from(["free", "claimed", "unbound", "bound"]))


def world(owner: StockPool, looks: list[tuple[str, bool, str]]) -> tuple[list[GPUUnit], list[GPUUnit]]:
    units, handed = [], []
    for number, (state, old, fate) in enumerate(looks, start=1):
        unit = stock(owner, number, state, old=old)
        if fate in {"unbound", "bound"}:
            handed.append(active(unit, f"unit-{number}", bound=fate == "bound"))
        else:
            units.append(claimed(unit) if fate == "claimed" else unit)
    return units, handed


@given(replicas=st.integers(0, 8), looks=st.lists(LOOKS, max_size=12), allowance=st.integers(0, 5))
def test_no_plan_touches_a_claim_drops_below_replicas_or_reuses_a_name(
    replicas: int, looks: list[tuple[str, bool, str]], allowance: int
) -> None:
    owner = pool(replicas)
    units, handed = world(owner, looks)

    plan = next_steps(owner, units, handed, now=NOW, allowance=allowance)

    ready = [unit for unit in units if is_ready_stock(unit)]
    left = [unit for unit in ready if unit not in plan.delete]
    promised = sum(fate in {"claimed", "unbound"} for _, _, fate in looks)
    free = sum(fate == "free" for _, _, fate in looks)
    used = {serial_of(owner, unit.metadata.name) for unit in units} | set(range(1, len(looks) + 1))
    assert not any(claim_of(unit.metadata) for unit in plan.delete)
    assert len(left) >= min(len(ready), replicas)
    assert len(plan.create) <= allowance
    assert not plan.create or free + promised + len(plan.create) <= replicas + 1
    assert not used & {serial_of(owner, name) for name in plan.create}


@given(replicas=st.integers(0, 6), looks=st.lists(LOOKS, max_size=10))
def test_a_pool_whose_units_all_start_converges_to_full_without_old_units(
    replicas: int, looks: list[tuple[str, bool, str]]
) -> None:
    owner = pool(replicas)
    # Every hand-off completes, and every unit starts.
    looks = [("ready", old, "bound" if fate in {"claimed", "unbound"} else fate) for _, old, fate in looks]
    units, handed = world(owner, looks)

    plan = next_steps(owner, units, handed, now=NOW, allowance=3)
    for _ in range(40):
        made = [stock(owner, serial_of(owner, name)) for name in plan.create]
        units = [unit for unit in units if unit not in plan.delete] + made
        owner = evolve(owner, status=pool_status(owner, plan, NOW))
        plan = next_steps(owner, units, handed, now=NOW, allowance=3)

    assert (plan.create, plan.delete) == ((), ())
    assert plan.available == replicas
    assert len(units) == replicas
