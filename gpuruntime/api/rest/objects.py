"""What requests and responses have in common: names, and the fields of views."""

from typing import Annotated

from attrs import field, frozen

from gpuruntime.api.names import RESERVED_PREFIXES, is_reserved
from gpuruntime.meta import (
    EMPTY,
    LABEL_KEY,
    LABEL_VALUE,
    Check,
    FrozenDict,
    Keys,
    Length,
    Pattern,
    Properties,
    Struct,
    wire,
)

__all__ = ["CallerLabels", "Name", "Namespace", "ObjectView"]

Name = Annotated[
    str,
    Length(minimum=1, maximum=253),
    Pattern(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        description="a name of lower-case letters, digits, '-' and '.'",
    ),
]
"""The name of an object."""
Namespace = Annotated[
    str,
    Length(minimum=1, maximum=63),
    Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="a name of lower-case letters, digits and '-'"),
]
"""The name of a namespace."""
CallerLabels = Annotated[
    FrozenDict[str, Annotated[str, LABEL_VALUE]],
    Keys(
        LABEL_KEY,
        Check(
            lambda key: not is_reserved(key),
            expected=f"a label of your own; the product sets those of {' and '.join(RESERVED_PREFIXES)}",
        ),
    ),
    Properties(maximum=64),
]
"""Labels that a caller may set."""


# Without slots: a class with slots cannot be the second base of a view.
@frozen(kw_only=True, slots=False)
class ObjectView(Struct):
    """Metadata and status of an object. The view of a kind adds the fields of the kind's spec, see `view_of`.

    In the view of a deleted object all fields but its name, namespace, uid, operation_id and `deleted` are absent.
    """

    name: str
    """Its name."""
    namespace: str
    """Its namespace."""
    labels: FrozenDict[str, str] = EMPTY
    """Its labels."""
    phase: str | None = None
    """Ready, Progressing or Failed; a pool that is scaled to zero is Empty, a storage that is not ready yet Pending, a
    function that starts no invocation Paused."""
    reason: str | None = None
    """Reason of the Ready condition, in one word."""
    message: str | None = None
    """Message of the Ready condition."""
    generation: int | None = None
    """Generation of the spec; it increases with every change."""
    observed_generation: int | None = None
    """The generation that was last reconciled."""
    last_sync_time: str | None = None
    """When the status last changed."""
    operation_id: str | None = field(default=None, metadata=wire("operationID"))
    """The operationID of the request that created it."""
    uid: str | None = None
    """Distinguishes it from a later object of the same name."""
    resource_version: str | None = None
    """The version of this state."""
    created_at: str | None = None
    """When it was created."""
    deleted: bool | None = None
    """True if the object has been deleted since: in the response to a request that is sent again."""
