"""What is done to an operator in one run, as values with names: a name leads back to its plan."""

from typing import Final, Literal, get_args

from attrs import field, frozen
from attrs.validators import ge, gt

from gpuruntime.testing.faults.exchanges import Call

__all__ = [
    "EVERY_RESOURCE",
    "CrashAfterWrite",
    "CrashBeforeWrite",
    "DelayWatch",
    "FailOnce",
    "Failure",
    "Plan",
    "SecondPass",
    "StaleCache",
    "Undisturbed",
    "parse_plan",
]

Failure = Literal["500", "429", "409", "dropped", "unanswered"]
EVERY_RESOURCE: Final = "*"


@frozen
class Undisturbed:
    """Nothing is done. If it ends otherwise than the run before it, the scenario leaves something to chance."""

    def __str__(self) -> str:
        return "undisturbed"


@frozen
class SecondPass:
    """When all is settled the operator is killed and started again, and is expected to write nothing."""

    def __str__(self) -> str:
        return "second-pass"


@frozen
class CrashAfterWrite:
    """The server accepts this write, then the operator dies: having seen the answer, or `unanswered`."""

    number: int = field(validator=ge(1))
    unanswered: bool = False

    def __str__(self) -> str:
        return f"crash-after-write:{self.number}{':unanswered' if self.unanswered else ''}"


@frozen
class CrashBeforeWrite:
    """The operator dies with this write on its lips: the server never gets it."""

    number: int = field(validator=ge(1))

    def __str__(self) -> str:
        return f"crash-before-write:{self.number}"


@frozen
class FailOnce:
    """This call fails: with a code, without reaching the server (dropped), or done by the server but not answered."""

    call: Call
    failure: Failure

    def __str__(self) -> str:
        return f"fail:{self.failure}:{self.call}"


@frozen
class DelayWatch:
    """Every event of this resource, or of `EVERY_RESOURCE`, arrives so many seconds late."""

    resource: str
    seconds: float = field(default=2.0, validator=gt(0), converter=float)

    def __str__(self) -> str:
        return f"delay-watch:{self.resource}:{self.seconds:g}"


@frozen
class StaleCache:
    """From the moment before the user acts, no event of this resource arrives, until the operator has nothing to do.

    With `EVERY_RESOURCE` it learns of nothing, and then of all at once.
    """

    resource: str

    def __str__(self) -> str:
        return f"stale-cache:{self.resource}"


Plan = Undisturbed | SecondPass | CrashAfterWrite | CrashBeforeWrite | FailOnce | DelayWatch | StaleCache


def parse_plan(text: str) -> Plan:
    """The inverse of `str`.

    Raises:
        ValueError: there is no such plan.
    """
    try:
        plan = _plan(text.split(":"))
    except ValueError as error:
        raise ValueError(f"plan {text!r} cannot be read: {error}; expected one that a report names") from error
    if plan is None:
        raise ValueError(f"there is no plan {text!r}: expected one that a report names")
    return plan


def _plan(parts: list[str]) -> Plan | None:  # noqa: PLR0911 - one for each plan
    match parts:
        case ["undisturbed"]:
            return Undisturbed()
        case ["second-pass"]:
            return SecondPass()
        case ["crash-after-write", number]:
            return CrashAfterWrite(int(number))
        case ["crash-after-write", number, "unanswered"]:
            return CrashAfterWrite(int(number), unanswered=True)
        case ["crash-before-write", number]:
            return CrashBeforeWrite(int(number))
        case ["fail", failure, call]:
            return next((FailOnce(Call.parse(call), known) for known in get_args(Failure) if known == failure), None)
        case ["delay-watch", resource, seconds]:
            return DelayWatch(resource, float(seconds))
        case ["stale-cache", resource]:
            return StaleCache(resource)
    return None
