"""CustomResourceDefinitions from attrs types: schema, validation, and breaking changes.

The public names are listed here; import from here.
"""

from gpuruntime.control.definitions.breaking import breaking_changes
from gpuruntime.control.definitions.custom_resource import definition
from gpuruntime.control.definitions.failures import DefinitionError
from gpuruntime.control.definitions.schema import TYPE, schema_of
from gpuruntime.control.definitions.schema_changes import Breakage
from gpuruntime.control.definitions.validation import UncheckedRule, Violation, unchecked_rules, violations

__all__ = [
    "TYPE",
    "Breakage",
    "DefinitionError",
    "UncheckedRule",
    "Violation",
    "breaking_changes",
    "definition",
    "schema_of",
    "unchecked_rules",
    "violations",
]
