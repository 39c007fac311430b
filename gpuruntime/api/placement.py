"""Placement of a unit: tolerations, and the credentials for its image."""

from typing import Annotated, ClassVar

from attrs import frozen

from gpuruntime.meta import Cel, Length, Pattern, Struct

__all__ = ["PullSecret", "UnitToleration"]


@frozen
class PullSecret(Struct):
    """A reference to a Secret of type kubernetes.io/dockerconfigjson in the unit's namespace."""

    name: Annotated[str, Length(minimum=1, maximum=253)]
    """Name of the Secret."""


@frozen
class UnitToleration(Struct):
    """A toleration of the unit's pod: it allows scheduling onto nodes with a matching taint."""

    RULES: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            message="value must be empty if operator is Exists",
        ),
        Cel(
            "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            message="operator must be Exists if key is empty",
        ),
        Cel(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="effect must be NoExecute if tolerationSeconds is set",
        ),
    )

    key: Annotated[str | None, Length(maximum=317)] = None
    """Key of the taint. Empty with operator Exists matches all keys."""
    operator: Annotated[str | None, Pattern("^(Exists|Equal)$"), Length(maximum=6)] = None
    """Exists matches every value, Equal the given one. Defaults to Equal."""
    value: Annotated[str | None, Length(maximum=63)] = None
    """Value of the taint, for operator Equal."""
    effect: Annotated[str | None, Pattern("^(NoSchedule|PreferNoSchedule|NoExecute)$"), Length(maximum=16)] = None
    """Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Empty matches all effects."""
    toleration_seconds: int | None = None
    """Seconds for which a NoExecute taint is tolerated before the pod is evicted. Unset means forever."""
