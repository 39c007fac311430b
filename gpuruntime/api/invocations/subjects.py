"""The streams and subjects of NATS.

A subject has the tokens of an `InvocationKey`. Namespaces and names of functions are DNS labels: valid tokens.
An ID may have dots, which separate tokens, so they are encoded.
"""

from typing import Final

from gpuruntime.api.invocations.identity import InvocationKey
from gpuruntime.meta import ObjectKey

__all__ = [
    "ACTIVATOR_STREAM",
    "ARCHIVE_CONSUMER",
    "DEAD_LETTERS_STREAM",
    "LEASE_KEY_SUBJECT",
    "RESULTS_STREAM",
    "RUNS_STREAM",
    "WORKERS_CONSUMER",
    "cancel_subject",
    "dead_letter_subject",
    "function_stream",
    "key_of_subject",
    "lease_subject",
    "queue_subject",
    "result_subject",
    "run_subject",
    "wake_subject",
]

RESULTS_STREAM: Final = "RESULTS"
"""How each invocation ended: at most one message per subject, for ever."""
DEAD_LETTERS_STREAM: Final = "DLQ"
"""The requests of invocations that ended without success."""
RUNS_STREAM: Final = "RUN"
"""Who runs what: kept in memory, for status only."""
ACTIVATOR_STREAM: Final = "ACTIVATOR"
"""What all activators share: the key that signs leases."""
LEASE_KEY_SUBJECT: Final = "activator.lease-key"
WORKERS_CONSUMER: Final = "workers"
"""The one consumer of a function's stream. All activators pull from it."""
ARCHIVE_CONSUMER: Final = "archive"
"""The consumer of RESULTS from which the result store pulls."""

_DOT: Final = "=2E"


def function_stream(function: ObjectKey) -> str:
    """The stream with the queue of a function. Neither part has an underscore, so two functions never share one."""
    return f"FN_{function.namespace}_{function.name}"


def queue_subject(key: InvocationKey) -> str:
    """The subject of a queued request. "inv.<namespace>.<function>.*" are all of a function."""
    return f"inv.{_tokens(key)}"


def result_subject(key: InvocationKey) -> str:
    """The subject of the end of an invocation."""
    return f"res.{_tokens(key)}"


def dead_letter_subject(key: InvocationKey) -> str:
    """The subject of the kept request of an invocation that ended without success."""
    return f"dlq.{_tokens(key)}"


def run_subject(key: InvocationKey) -> str:
    """The subject of the run of an invocation."""
    return f"run.{_tokens(key)}"


def cancel_subject(key: InvocationKey) -> str:
    """Core subject: asks the activator whose worker runs it to stop the run."""
    return f"cancel.{_tokens(key)}"


def lease_subject(key: InvocationKey) -> str:
    """Core subject: asks all activators whether one of their workers runs it."""
    return f"lease.{_tokens(key)}"


def wake_subject(function: ObjectKey) -> str:
    """Core subject: an invocation of the function was accepted."""
    return f"wake.{function.namespace}.{function.name}"


def key_of_subject(subject: str) -> InvocationKey:
    """The invocation of a subject that one of the functions above made.

    Raises:
        ValueError: it is none of them.
    """
    tokens = subject.split(".")
    if len(tokens) != 4 or not all(tokens):
        raise ValueError(f"expected a subject such as inv.NAMESPACE.FUNCTION.ID, got {subject!r}")
    _, namespace, function, token = tokens
    return InvocationKey(namespace, function, token.replace(_DOT, "."))


def _tokens(key: InvocationKey) -> str:
    return f"{key.namespace}.{key.function}.{key.id.replace('.', _DOT)}"
