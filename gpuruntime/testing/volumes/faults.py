"""What goes wrong with volumes, as a test sets it: by class, or by PersistentVolumeClaim."""

from collections.abc import Callable, Iterable
from typing import Final, Literal

from attrs import define, field, frozen

from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ObjectKey

__all__ = ["Failure", "ResizeFault", "Target", "VolumeFaults"]

Target = str | ObjectKey
"""The name of a storage class, or the key of a PersistentVolumeClaim, which need not exist yet."""
_FOREVER: Final = -1


@frozen
class Failure:
    """A failed attempt to make a volume; whether another attempt follows by itself."""

    message: str
    is_retried: bool


@frozen
class ResizeFault:
    """What happens to a resize: it makes no progress, is refused, or waits for a new pod.

    It concerns sizes above `above`, a quantity.
    """

    effect: Literal["stall", "refuse", "restart"]
    message: str = ""
    above: str = "0"


@define
class _Failures:
    message: str
    remaining: int


@define
class VolumeFaults:
    """The faults that are set now. The fault of a claim comes before that of its class.

    `changed` is called with the target of each change: controllers look at its claims again.
    """

    changed: Callable[[Target], None] = field(default=lambda _target: None)
    _held: set[Target] = field(factory=set, init=False)
    _failures: dict[Target, _Failures] = field(factory=dict, init=False)
    _resizes: dict[Target, ResizeFault] = field(factory=dict, init=False)

    def hold(self, target: Target) -> None:
        self._held.add(target)
        self.changed(target)

    def fail(self, target: Target, message: str, times: int | None) -> None:
        self._failures[target] = _Failures(message, _FOREVER if times is None else times)
        self.changed(target)

    def resize(self, target: Target, fault: ResizeFault) -> None:
        self._resizes[target] = fault
        self.changed(target)

    def release(self, target: Target) -> None:
        """Clear every fault of a target."""
        self._held.discard(target)
        self._failures.pop(target, None)
        self._resizes.pop(target, None)
        self.changed(target)

    def is_held(self, claim: PersistentVolumeClaim) -> bool:
        return any(target in self._held for target in _targets(claim))

    def next_failure(self, claim: PersistentVolumeClaim) -> Failure | None:
        """The failure of this attempt, which is counted; None if it succeeds."""
        for target in _targets(claim):
            found = self._failures.get(target)
            if found is None or not found.remaining:
                continue
            if found.remaining == _FOREVER:
                return Failure(found.message, is_retried=False)
            found.remaining -= 1
            return Failure(found.message, is_retried=True)
        return None

    def resize_of(self, claim: PersistentVolumeClaim) -> ResizeFault | None:
        return next((self._resizes[target] for target in _targets(claim) if target in self._resizes), None)


def _targets(claim: PersistentVolumeClaim) -> Iterable[Target]:
    return (claim.key, claim.spec.storage_class_name or "")
