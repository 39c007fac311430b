"""The small values around a run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.controllers.reconcile import Cause, ObjectReconciler, Result, RunInfo
from gpuruntime.control.informers.storage import Storage, eager, projected
from gpuruntime.control.informers.store import QuarantinedError, Store, StoreWriter
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.virtual_time import run_virtual

KEY = ObjectKey("a", "x")


def context(*causes: Cause, started: float = 10.0) -> RunInfo:
    return RunInfo("tests", "id", 1, causes, 0.0, started)


def test_done_asks_for_nothing_and_after_for_another_run() -> None:
    assert Result.done() == Result()
    assert Result.done().seconds is None
    assert Result.after(1.5).seconds == 1.5


@pytest.mark.parametrize("seconds", [0, -1, -0.0, math.nan, math.inf, -math.inf])
def test_a_delay_that_is_no_positive_finite_number_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        Result.after(seconds)
    with pytest.raises(ValueError, match="seconds"):
        Result(seconds)


def test_causes_that_differ_only_in_their_time_are_one() -> None:
    assert Cause("pods", "added", "a/x", at=1.0) == Cause("pods", "added", "a/x", at=2.0)
    assert len({Cause("pods", "added", "a/x", at=1.0), Cause("pods", "added", "a/x", at=2.0)}) == 1
    assert Cause("pods", "added", "a/x") != Cause("pods", "deleted", "a/x")


@given(st.lists(st.floats(0, 10)))
def test_the_age_of_a_run_is_that_of_its_oldest_cause(times: list[float]) -> None:
    run = context(*(Cause("s", str(number), at=at) for number, at in enumerate(times)))

    assert run.age == (10.0 - min(times) if times else 0.0)


def reconciled(storage: Storage[object], data: object, *, present: bool = True) -> list[object]:
    store, handled = Store(storage), list[object]()
    raw = {"metadata": {"name": "x", "namespace": "a", "resourceVersion": "1"}, "data": data}
    if present:
        StoreWriter(store).upsert(None, raw, 100)

    async def handle(obj: object, run: RunInfo) -> Result:
        handled.extend([obj, run])
        return Result.after(5)

    reconciler = ObjectReconciler(store, handle)
    result = run_virtual(reconciler.reconcile(KEY, context()))
    assert result == (Result.after(5) if handled else Result.done())
    return handled


def test_an_object_is_read_and_passed_on_with_the_context() -> None:
    obj, run = reconciled(eager(ConfigMap), {"a": "1"})

    assert isinstance(obj, ConfigMap)
    assert (obj.data, run) == ({"a": "1"}, context())


def test_an_object_that_is_gone_needs_nothing() -> None:
    assert reconciled(eager(ConfigMap), {}, present=False) == []


def test_a_projection_that_is_empty_is_an_object_all_the_same() -> None:
    assert reconciled(projected(ConfigMap.KIND, lambda raw: len(raw["data"])), {}) == [0, context()]


def test_an_object_that_cannot_be_read_is_not_taken_for_gone() -> None:
    with pytest.raises(QuarantinedError, match="a/x"):
        reconciled(eager(ConfigMap), 5)
