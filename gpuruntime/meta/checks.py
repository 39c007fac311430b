"""Ready-made checks of names and labels, for `Annotated` and `Keys`."""

from typing import Final

from gpuruntime.meta.names import is_dns_subdomain, is_label_value, is_qualified_name
from gpuruntime.meta.rules import Check

__all__ = ["LABEL_KEY", "LABEL_VALUE", "OBJECT_NAME"]

OBJECT_NAME: Final = Check(
    is_dns_subdomain, expected="the name of an object (at most 253 lower-case letters, digits, '-' and '.')"
)
"""The name of an object of most kinds: a DNS-1123 subdomain."""
LABEL_KEY: Final = Check(is_qualified_name, expected="a label key such as app or example.org/app")
"""The key of a label, an annotation or a taint."""
LABEL_VALUE: Final = Check(is_label_value, expected="a label value of at most 63 letters, digits, '-', '_' and '.'")
"""The value of a label or a taint; it may be empty."""
