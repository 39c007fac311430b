"""Plans: the fault of one run, as a value with a name from which it can be parsed again."""

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
    """No fault. If the final state differs from the reference run, the scenario is not deterministic."""

    def __str__(self) -> str:
        return "undisturbed"


@frozen
class SecondPass:
    """The operator is restarted after the run has settled, and must write nothing."""

    def __str__(self) -> str:
        return "second-pass"


@frozen
class CrashAfterWrite:
    """The server accepts this write, then the operator crashes: with the response received, or `unanswered`."""

    number: int = field(validator=ge(1))
    unanswered: bool = False

    def __str__(self) -> str:
        return f"crash-after-write:{self.number}{':unanswered' if self.unanswered else ''}"


@frozen
class CrashBeforeWrite:
    """The operator crashes while it sends this write, which never reaches the server."""

    number: int = field(validator=ge(1))

    def __str__(self) -> str:
        return f"crash-before-write:{self.number}"


@frozen
class FailOnce:
    """This call fails once: with a status code, `dropped` before the server, or executed and `unanswered`."""

    call: Call
    failure: Failure

    def __str__(self) -> str:
        return f"fail:{self.failure}:{self.call}"


@frozen
class DelayWatch:
    """Every watch event of this resource, or of `EVERY_RESOURCE`, arrives `seconds` late."""

    resource: str
    seconds: float = field(default=2.0, validator=gt(0), converter=float)

    def __str__(self) -> str:
        return f"delay-watch:{self.resource}:{self.seconds:g}"


@frozen
class StaleCache:
    """Watch events of this resource, or of `EVERY_RESOURCE`, are held from before the user's act until the run is idle.

    Then all of them arrive at once.
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
        raise ValueError(f"invalid plan {text!r}: {error}; expected a name that a report prints") from error
    if plan is None:
        raise ValueError(f"unknown plan {text!r}: expected a name that a report prints")
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
