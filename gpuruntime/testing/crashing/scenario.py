"""Scenarios: what a user does with an operator, and when the operator has finished its work."""

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import field, frozen
from attrs.validators import gt, min_len

from gpuruntime.kube.client import Client
from gpuruntime.kube.forms import as_form
from gpuruntime.meta import ResourceKind
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.crashing.change_recorder import ChangeRecorder
from gpuruntime.testing.crashing.world import Moment, World

__all__ = ["Scenario", "Stage"]


@frozen
class Stage:
    """The environment of one run as its scenario sees it: exclusive namespaces, and a client that bypasses the proxy.

    The client has an administrator's permissions.
    """

    access: ClusterAccess
    client: Client
    recorder: ChangeRecorder

    def namespace(self, role: str = "main") -> str:
        """The name of this role's namespace in this run.

        Raises:
            KeyError: the scenario has no such role.
        """
        return self.recorder.namespaces[role]

    async def until(self, condition: Callable[[World], bool]) -> None:
        """Wait until the condition holds, checked after every change; the scenario's timeout limits the wait."""
        await self.recorder.until(condition)


async def _nothing(_stage: Stage) -> None:
    pass


def _kinds(kinds: tuple[Any, ...]) -> tuple[ResourceKind, ...]:
    found = tuple(kind if isinstance(kind, ResourceKind) else as_form(kind).kind for kind in kinds)
    for kind in found:
        if not kind.namespaced:
            raise ValueError(f"{kind} is cluster-scoped: expected namespaced kinds, because runs share the cluster")
    return found


@frozen(kw_only=True)
class Scenario:
    """Actions of a user that lead to one final state, whatever happens to the operator on the way.

    Args:
        name: the name in reports.
        kinds: typed classes or `ResourceKind`s, all namespaced: the objects that are recorded and form the final state.
        act: what the user does while the operator runs. It bypasses the proxy, so no fault affects it.
        settled: whether the objects have reached the state that the scenario must end in.
        prepare: sets up what exists before the operator starts.
        invariant: called for every state that the cluster was in; returns a description of a violation, or None.
        observe: returns the final state as JSON values that are the same in every run; by default the objects of
            `kinds`, see `normalise`.
        ignored_fields: fields of these objects that are not compared, see `normalise`.
        replacements: regular expressions and their replacement texts, applied to these objects, see `normalise`.
        namespaces: the roles of the namespaces that each run gets.
        ignored_resources: resources whose writes are neither counted nor keep a run from being idle.
        idle_seconds: a run ends when it is settled, and no write and no new watch came for this many seconds.
        timeout: the seconds from the user's act to that end after which a run has failed.
    """

    name: str
    kinds: tuple[ResourceKind, ...] = field(converter=_kinds, validator=min_len(1))
    act: Callable[[Stage], Awaitable[None]]
    settled: Callable[[World], bool]
    prepare: Callable[[Stage], Awaitable[None]] = _nothing
    invariant: Callable[[Moment], str | None] | None = None
    observe: Callable[[Stage], Awaitable[Any]] | None = None
    ignored_fields: tuple[str, ...] = ()
    replacements: tuple[tuple[str, str], ...] = ()
    namespaces: tuple[str, ...] = field(default=("main",), validator=min_len(1))
    ignored_resources: tuple[str, ...] = ("leases",)
    idle_seconds: float = field(default=1.0, validator=gt(0))
    timeout: float = field(default=60.0, validator=gt(0))
