"""Which nodes take a unit, and with which credentials they pull its image."""

from typing import Annotated, ClassVar

from attrs import frozen

from gpuruntime.meta import Cel, Length, Pattern, Struct

__all__ = ["PullSecret", "UnitToleration"]


@frozen
class PullSecret(Struct):
    """A Secret of type kubernetes.io/dockerconfigjson in the namespace of the unit."""

    name: Annotated[str, Length(minimum=1, maximum=253)]
    """Name of the Secret."""


@frozen
class UnitToleration(Struct):
    """Lets the unit run on nodes that have a taint, in the words of Kubernetes."""

    RULES: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            message="expected no value with operator Exists",
        ),
        Cel(
            "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            message="expected operator Exists without a key",
        ),
        Cel(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="expected effect NoExecute with tolerationSeconds",
        ),
    )

    key: Annotated[str | None, Length(maximum=317)] = None
    """Key of the taint. Without it, and with operator Exists, every taint is tolerated."""
    operator: Annotated[str | None, Pattern("^(Exists|Equal)$"), Length(maximum=6)] = None
    """Exists tolerates every value, Equal the given one; Equal unless given."""
    value: Annotated[str | None, Length(maximum=63)] = None
    """Value of the taint, for operator Equal."""
    effect: Annotated[str | None, Pattern("^(NoSchedule|PreferNoSchedule|NoExecute)$"), Length(maximum=16)] = None
    """Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute; every effect unless given."""
    toleration_seconds: int | None = None
    """How long the unit stays on a node that gets a taint with effect NoExecute; for ever unless given."""
