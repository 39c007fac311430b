"""Bodies and views of /operator/stockpools. Bodies have the validation rules of the custom resource."""

from attrs import frozen

from gpuruntime.api.projection import patch_of, view_of
from gpuruntime.api.rest.objects import Name, Namespace, ObjectView
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.meta import Struct

__all__ = ["CreatePoolBody", "PoolView", "UpdatePoolBody"]


@frozen
class CreatePoolBody(StockPoolSpec):
    """A pool that keeps a number of ready stock units of one flavour."""

    name: Name | None = None
    """Name of the pool. Defaults to a name derived from the operationID."""
    namespace: Namespace | None = None
    """The stock namespace to create the pool in. Defaults to the first stock namespace."""


@frozen(field_transformer=patch_of(StockPoolSpec))
class UpdatePoolBody(Struct):
    """The fields to change, as a merge patch: omitted fields keep their values, inside template and nodeSelector too;
    null removes a value; lists are replaced as a whole. Any change but one of replicas replaces the stock, unit by
    unit.
    """


@frozen(field_transformer=view_of(StockPoolSpec))
class PoolView(ObjectView, StockPoolSpec):
    """Spec and status of a pool. Fields without a value are omitted."""

    available: int | None = None
    """Stock units that are ready and not claimed."""
    allocated: int | None = None
    """Active units on capacity of this pool."""
    failures: int | None = None
    """Stock units that failed in a row since the last one became ready."""
