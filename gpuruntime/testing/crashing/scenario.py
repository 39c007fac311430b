"""What a user does with an operator, and how to tell that the operator has done its part."""

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
    """Where one run happens: namespaces that nobody else uses, and an administrator's client past the proxy."""

    access: ClusterAccess
    client: Client
    witness: ChangeRecorder

    def namespace(self, role: str = "main") -> str:
        """The name that the namespace of this role has in this run.

        Raises:
            KeyError: the scenario has no such role.
        """
        return self.witness.namespaces[role]

    async def until(self, condition: Callable[[World], bool]) -> None:
        """Wait for a state of the world, looked at after every change; the patience of the scenario limits it."""
        await self.witness.until(condition)


async def _nothing(_stage: Stage) -> None:
    pass


def _kinds(kinds: tuple[Any, ...]) -> tuple[ResourceKind, ...]:
    found = tuple(kind if isinstance(kind, ResourceKind) else as_form(kind).kind for kind in kinds)
    for kind in found:
        if not kind.namespaced:
            raise ValueError(f"{kind} is cluster-scoped: expected kinds in namespaces, which are a run's own")
    return found


@frozen(kw_only=True)
class Scenario:
    """A story that ends in one state, whatever happens to the operator on the way.

    Args:
        name: what reports call it.
        kinds: typed classes or `ResourceKind`s, all namespaced: what the witness sees, and the final state consists of.
        act: what a user does while the operator runs. It goes past the proxy, so no fault meets it.
        settled: whether the world is as it has to be in the end, as far as the author wants to say it.
        prepare: what is there before the operator starts.
        never: looked at for every state that the cluster was in; a text says what must not be.
        observe: the final state, values that JSON knows and that are the same in every run; by default the objects of
            `kinds`, see `normalise`.
        ignoring: fields of these objects that do not matter, see `normalise`.
        alike: texts in these objects that do not matter, pairs of a pattern and what stands for it, see `normalise`.
        namespaces: roles of the namespaces that a run is given.
        aside: resources that do not matter: their writes are not counted, and do not keep a run from being quiet.
        quiet: a run has ended when it is settled, and nothing was written and no watch was opened for so many seconds.
        patience: how many seconds it may take from the user's act to that end.
    """

    name: str
    kinds: tuple[ResourceKind, ...] = field(converter=_kinds, validator=min_len(1))
    act: Callable[[Stage], Awaitable[None]]
    settled: Callable[[World], bool]
    prepare: Callable[[Stage], Awaitable[None]] = _nothing
    never: Callable[[Moment], str | None] | None = None
    observe: Callable[[Stage], Awaitable[Any]] | None = None
    ignoring: tuple[str, ...] = ()
    alike: tuple[tuple[str, str], ...] = ()
    namespaces: tuple[str, ...] = field(default=("main",), validator=min_len(1))
    aside: tuple[str, ...] = ("leases",)
    quiet: float = field(default=1.0, validator=gt(0))
    patience: float = field(default=60.0, validator=gt(0))
