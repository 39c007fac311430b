import ast
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.reasons import EMPTY, FAILED, PAUSED, PENDING, PROGRESSING, READY, phase_of
from gpuruntime.meta.conditions import Condition, set_condition

PHASES = {READY, PROGRESSING, PENDING, FAILED, EMPTY, PAUSED}
REASONS = sorted({getattr(reasons, name) for name in reasons.__all__ if name.isupper()} - PHASES)


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_valid_in_a_condition(reason: str) -> None:
    condition = Condition("Ready", "False", reason)

    (written,) = set_condition((), condition, datetime(2026, 1, 2, tzinfo=UTC))

    assert written.reason == reason


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_a_phase(reason: str) -> None:
    assert phase_of(reason) in PHASES


def test_each_reason_has_the_expected_phase() -> None:
    phases = {reason: phase_of(reason) for reason in REASONS}

    assert {reason for reason, phase in phases.items() if phase == READY} == {
        *("UnitReady", "StockReady", "PoolReady"),
        *("StorageReady", "WaitsForFirstConsumer"),
        *("FunctionReady", "UnitServerlessReady"),
    }
    assert phases["StorageNotReady"] == phases["StorageInUse"] == PROGRESSING
    assert phases["StoragePending"] == phases["PrepareRunning"] == PENDING
    assert phases["Unschedulable"] == PROGRESSING
    assert phases["ScaledToZero"] == EMPTY
    assert phases["InvalidSpec"] == phases["CrashLooping"] == phases["PodStartupFailed"] == FAILED


def test_every_reason_is_documented() -> None:
    body = ast.parse(Path(reasons.__file__).read_text()).body
    explained = {
        node.target.id
        for node, after in pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }

    assert explained >= {name for name in reasons.__all__ if name.isupper()}
