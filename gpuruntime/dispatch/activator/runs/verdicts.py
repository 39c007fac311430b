"""What becomes of a delivery that is not the first one of its invocation. Pure.

==============  ===========  ==============  =========================  ==============================================
a result?       held?        attempts left?  maxAttempts                act
==============  ===========  ==============  =========================  ==============================================
yes             any          any             any                        acknowledge, do not run
no              yes          any             any                        leave it pending: its holder extends it
no              no           yes             any                        run
no              no           no              1, or worker_lost is not   failed, worker_lost
                                             in retryOn
no              no           no              more                       dead_lettered, retry_exhausted
==============  ===========  ==============  =========================  ==============================================

The attempt is the number of deliveries without those that were given back before a worker had them. An outage of NATS
that is longer than the lease may count one too many: the server counts a delivery that its holder kept.
"""

from enum import StrEnum

from attrs import frozen

from gpuruntime.api.invocations import FailureClass, InvocationState

__all__ = ["Act", "Sighting", "Verdict", "decide"]


class Act(StrEnum):
    """What to do with a delivery."""

    RUN = "run"
    LEAVE = "leave"
    ACKNOWLEDGE = "acknowledge"
    END = "end"


@frozen
class Sighting:
    """What is known of a delivery: how often it was delivered, how often it was given back without a start, whether
    there is a result, and whether a live worker has it.
    """

    delivery_count: int
    given_back: int = 0
    has_ended: bool = False
    is_held: bool = False


@frozen
class Verdict:
    """What to do. `attempt` counts from 1; state and failure class are those of the end, if it is one."""

    act: Act
    attempt: int = 0
    state: InvocationState | None = None
    failure_class: FailureClass | None = None


def decide(sighting: Sighting, max_attempts: int, *, retries_lost: bool = True) -> Verdict:
    """The verdict. `retries_lost`: whether the function retries what a lost worker ran."""
    if sighting.has_ended:
        return Verdict(Act.ACKNOWLEDGE)
    if sighting.is_held:
        return Verdict(Act.LEAVE)
    attempt = max(1, sighting.delivery_count - sighting.given_back)
    allowed = max_attempts if retries_lost else 1
    if attempt <= allowed:
        return Verdict(Act.RUN, attempt)
    if allowed == 1:
        return Verdict(Act.END, attempt - 1, InvocationState.FAILED, FailureClass.WORKER_LOST)
    return Verdict(Act.END, attempt - 1, InvocationState.DEAD_LETTERED, FailureClass.RETRY_EXHAUSTED)
