"""Placement of a unit: tolerations and labels of nodes; and the credentials for its image."""

from typing import Annotated, ClassVar, Final

from attrs import frozen

from gpuruntime.meta import (
    LABEL_KEY,
    LABEL_VALUE,
    OBJECT_NAME,
    Cel,
    Check,
    FrozenDict,
    Keys,
    Length,
    Pattern,
    Properties,
    Rule,
    Struct,
)

__all__ = ["NodeSelector", "PullSecret", "UnitToleration"]

NodeSelector = Annotated[FrozenDict[str, Annotated[str, LABEL_VALUE]], Keys(LABEL_KEY), Properties(maximum=32)]
"""Labels that a node must have."""
_TAINT_KEY: Final = Check(lambda key: not key or LABEL_KEY.check(key), expected=LABEL_KEY.expected)


@frozen
class PullSecret(Struct):
    """A reference to a Secret of type kubernetes.io/dockerconfigjson in the unit's namespace."""

    name: Annotated[str, Length(minimum=1, maximum=253), OBJECT_NAME]
    """Name of the Secret."""


@frozen
class UnitToleration(Struct):
    """A toleration of the unit's pod: it allows scheduling onto nodes with a matching taint."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            message="value must be empty if operator is Exists",
            field_path=".value",
            check=lambda toleration: toleration.operator != "Exists" or not toleration.value,
            expected="no value with operator Exists",
        ),
        Cel(
            "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            message="operator must be Exists if key is empty",
            field_path=".key",
            check=lambda toleration: bool(toleration.key) or toleration.operator == "Exists",
            expected="a key, or operator Exists",
        ),
        Cel(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="effect must be NoExecute if tolerationSeconds is set",
            field_path=".effect",
            check=lambda toleration: toleration.toleration_seconds is None or toleration.effect == "NoExecute",
            expected="NoExecute with tolerationSeconds",
        ),
    )

    key: Annotated[str | None, Length(maximum=317), _TAINT_KEY] = None
    """Key of the taint. Empty with operator Exists matches all keys."""
    operator: Annotated[str | None, Pattern("^(Exists|Equal)$"), Length(maximum=6)] = None
    """Exists matches every value, Equal the given one. Defaults to Equal."""
    value: Annotated[str | None, Length(maximum=63), LABEL_VALUE] = None
    """Value of the taint, for operator Equal."""
    effect: Annotated[str | None, Pattern("^(NoSchedule|PreferNoSchedule|NoExecute)$"), Length(maximum=16)] = None
    """Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Empty matches all effects."""
    toleration_seconds: int | None = None
    """Seconds for which a NoExecute taint is tolerated before the pod is evicted. Unset means forever."""
