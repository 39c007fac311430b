"""The common parts of Kubernetes objects: identity, metadata, conditions, codec, quantities, selectors. Pure values."""

from gpuruntime.meta.codec import decode, decode_bytes, encode, encode_bytes, parse_json
from gpuruntime.meta.conditions import (
    Condition,
    ConditionError,
    ConditionStatus,
    find_condition,
    is_true,
    remove_condition,
    set_condition,
)
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.dynamic import DynamicObject, PartialObject
from gpuruntime.meta.field_selectors import FieldSelector, FieldTerm, parse_field_selector
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict, freeze, thaw
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.label_selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    Requirement,
    Selector,
    SelectorError,
    parse_selector,
)
from gpuruntime.meta.names import clamp, is_dns_label, is_dns_subdomain
from gpuruntime.meta.objects import KubeObject, ObjectMeta, OwnerReference, TypedObject
from gpuruntime.meta.owners import AlreadyOwnedError, OwnerError, controller_of, is_controlled_by, set_controller
from gpuruntime.meta.quantities import Quantity, QuantityError, parse_quantity
from gpuruntime.meta.resource_version import ResourceVersionError
from gpuruntime.meta.rules import (
    Atomic,
    Cel,
    Column,
    Default,
    Definition,
    Embedded,
    Format,
    Immutable,
    Items,
    Length,
    MapOf,
    Pattern,
    PreserveUnknown,
    Properties,
    QuantityRule,
    Range,
    Required,
    Scale,
    SetOf,
)
from gpuruntime.meta.structs import Struct, wire
from gpuruntime.meta.timestamps import TimestampError, format_micros, format_seconds, parse_timestamp
from gpuruntime.meta.value_hooks import UnsupportedTypeError

__all__ = [
    "EMPTY",
    "AlreadyOwnedError",
    "Atomic",
    "Cel",
    "Column",
    "Condition",
    "ConditionError",
    "ConditionStatus",
    "DecodeError",
    "Default",
    "Definition",
    "DynamicObject",
    "Embedded",
    "FieldSelector",
    "FieldTerm",
    "Format",
    "FrozenDict",
    "Immutable",
    "Items",
    "KubeObject",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Length",
    "MapOf",
    "ObjectKey",
    "ObjectMeta",
    "OwnerError",
    "OwnerReference",
    "PartialObject",
    "Pattern",
    "PreserveUnknown",
    "Properties",
    "Quantity",
    "QuantityError",
    "QuantityRule",
    "Range",
    "Required",
    "Requirement",
    "ResourceKind",
    "ResourceVersionError",
    "Scale",
    "Selector",
    "SelectorError",
    "SetOf",
    "Struct",
    "TimestampError",
    "TypedObject",
    "UnsupportedTypeError",
    "clamp",
    "controller_of",
    "decode",
    "decode_bytes",
    "encode",
    "encode_bytes",
    "find_condition",
    "format_micros",
    "format_seconds",
    "freeze",
    "is_controlled_by",
    "is_dns_label",
    "is_dns_subdomain",
    "is_true",
    "parse_field_selector",
    "parse_json",
    "parse_quantity",
    "parse_selector",
    "parse_timestamp",
    "remove_condition",
    "set_condition",
    "set_controller",
    "thaw",
    "wire",
]
