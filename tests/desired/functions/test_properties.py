"""Properties of function plans in every state, and convergence."""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.desired.functions.plan import function_status, next_steps
from gpuruntime.desired.functions.workers import serial_of
from gpuruntime.desired.pools.units import is_ready_stock
from tests.desired.function_scenes import function, joined, worker
from tests.desired.pool_scenes import NOW, STATES

LOOKS = st.tuples(st.sampled_from(STATES), st.sampled_from(["current", "old", "draining"]))
MEMBERS = st.lists(st.sampled_from(STATES), max_size=4)


def workers(owner: GPUFunction, looks: list[tuple[str, str]]) -> list[GPUUnit]:
    return [
        worker(owner, number, state, is_old=fate == "old", is_draining=fate == "draining")
        for number, (state, fate) in enumerate(looks, start=1)
    ]


@given(
    wanted=st.integers(0, 8),
    looks=st.lists(LOOKS, max_size=10),
    members=MEMBERS,
    allowance=st.integers(0, 5),
    paused=st.booleans(),
)
def test_no_plan_deletes_what_joined_drops_below_the_target_or_reuses_a_name(
    wanted: int, looks: list[tuple[str, str]], members: list[str], allowance: int, paused: bool
) -> None:
    owner = function(wanted, paused=paused)
    owned, mine = workers(owner, looks), [joined(number, state) for number, state in enumerate(members, start=1)]

    plan = next_steps(owner, owned, mine, now=NOW, allowance=allowance)

    living = [unit for unit in owned if unit.metadata.deletion_timestamp is None]
    ready = [unit for unit in living if is_ready_stock(unit)]
    left = [unit for unit in ready if unit not in plan.delete]
    target = max(0, wanted - len(mine))
    used = {serial_of(owner, unit.metadata.name) for unit in owned}
    assert all(unit in living for unit in plan.delete)
    assert len(left) >= min(len(ready), target)
    assert len(plan.create) <= allowance
    assert not plan.create or len(living) + len(plan.create) <= target + 1
    assert not used & {serial_of(owner, name) for name in plan.create}
    assert plan.last_serial >= max(used, default=0) + len(plan.create)


@given(wanted=st.integers(0, 6), looks=st.lists(LOOKS, max_size=8), members=MEMBERS)
def test_a_function_whose_workers_all_start_converges_without_old_ones(
    wanted: int, looks: list[tuple[str, str]], members: list[str]
) -> None:
    owner = function(wanted)
    # Every drain ends, and every worker starts.
    owned = workers(owner, [("ready", fate) for _, fate in looks if fate != "draining"])
    mine = [joined(number) for number in range(1, len(members) + 1)]

    plan = next_steps(owner, owned, mine, now=NOW, allowance=3)
    while plan.create or plan.delete:
        made = [worker(owner, serial_of(owner, name)) for name in plan.create]
        owned = [unit for unit in owned if unit not in plan.delete] + made
        owner = evolve(owner, status=function_status(owner, plan, NOW))
        plan = next_steps(owner, owned, mine, now=NOW, allowance=3)

    assert plan.reason == "FunctionReady"
    assert len(owned) == max(0, wanted - len(mine))
