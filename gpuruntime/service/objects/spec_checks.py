"""Whether a spec can be carried out, asked before anything is stored: all that is wrong with it, by field.

Each problem begins with the path of a field as the caller wrote it, such as "template.ports[0].port".
"""

from collections.abc import Mapping

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import GROUP
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.control.definitions import violations
from gpuruntime.desired.problems import Problem, bad_label
from gpuruntime.desired.validation import problems, stock_problems
from gpuruntime.meta import ObjectMeta

__all__ = ["is_reserved", "label_problems", "pool_problems", "unit_problems"]

_RESERVED = (GROUP, "app.kubernetes.io")


def unit_problems(spec: GPUUnitSpec) -> list[str]:
    """What is wrong with the spec of a unit: what its schema says, or else what only its operator knows."""
    broken = [str(violation) for violation in violations(spec, GPUUnitSpec)]
    return broken or [_as_asked(problem) for problem in problems(GPUUnit(ObjectMeta(), spec))]


def pool_problems(spec: StockPoolSpec) -> list[str]:
    """What is wrong with the spec of a pool, and with that of the units that it would make."""
    broken = [str(violation) for violation in violations(spec, StockPoolSpec)]
    return broken or [_as_asked(problem) for problem in stock_problems(spec)]


def label_problems(labels: Mapping[str, str]) -> list[str]:
    """What is wrong with labels of a caller; those of the product itself are not for callers to set."""
    found = [str(problem) for key, value in labels.items() for problem in bad_label("labels", key, value)]
    taken = sorted(key for key in labels if is_reserved(key))
    return found + [f"labels: expected labels of your own, got {key!r}, which the product sets" for key in taken]


def is_reserved(label: str) -> bool:
    """Whether a label is one of the product itself."""
    return label.partition("/")[0] in _RESERVED


def _as_asked(problem: Problem) -> str:
    return str(problem).removeprefix("spec.")
