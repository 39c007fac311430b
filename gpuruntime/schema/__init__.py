"""Schemas of attrs types: CustomResourceDefinitions, validation, and breaking changes.

The public names are listed here; import from here.
"""

from gpuruntime.schema.breaking import breaking_changes
from gpuruntime.schema.custom_resource import definition
from gpuruntime.schema.descriptions import DECLARED_IN
from gpuruntime.schema.failures import DefinitionError
from gpuruntime.schema.python_checks import CHECK
from gpuruntime.schema.schema_changes import Breakage
from gpuruntime.schema.structural import TYPE, schema_of
from gpuruntime.schema.validation import UncheckedRule, Violation, unchecked_rules, violations

__all__ = [
    "CHECK",
    "DECLARED_IN",
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
