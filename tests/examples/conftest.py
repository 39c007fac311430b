"""Examples are tried by a stranger."""

from tests.docs.stranger import stranger

__all__ = ["stranger"]
