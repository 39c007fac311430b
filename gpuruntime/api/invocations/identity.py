"""The identity of an invocation: a function and an ID that is unique among the invocations of that function."""

import re
from hashlib import sha256
from typing import Final

from attrs import frozen

from gpuruntime.meta import ObjectKey, Pattern

__all__ = [
    "INVOCATION_ID",
    "InvocationKey",
    "belongs_to",
    "function_digest",
    "generated_for",
    "is_invocation_id",
    "make_invocation_id",
]

INVOCATION_ID: Final = Pattern(
    "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$",
    description="at most 128 letters, digits, '.', '_', ':' and '-', with a letter or digit first",
)
"""The rule for the ID of an invocation."""

_ID: Final = re.compile(INVOCATION_ID.regex.removeprefix("^").removesuffix("$"))
_PREFIX: Final = "inv-"
_DIGEST_LENGTH: Final = 8
_RANDOM_LENGTH: Final = 24
_GENERATED: Final = re.compile(f"{_PREFIX}([0-9a-f]{{{_DIGEST_LENGTH}}})[0-9a-f]{{{_RANDOM_LENGTH}}}")


@frozen(order=True)
class InvocationKey:
    """Namespace and name of the function, and the ID."""

    namespace: str
    function: str
    id: str

    @property
    def function_key(self) -> ObjectKey:
        """The key of the GPUFunction."""
        return ObjectKey(self.namespace, self.function)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.function}/{self.id}"


def is_invocation_id(text: str) -> bool:
    """Whether a text can be the ID of an invocation. No other text is safe in a subject."""
    return _ID.fullmatch(text) is not None


def function_digest(function: ObjectKey) -> str:
    """The part of a generated ID by which its function is found."""
    return sha256(f"{function.namespace}/{function.name}".encode()).hexdigest()[:_DIGEST_LENGTH]


def make_invocation_id(function: ObjectKey, random: str) -> str:
    """A generated ID: "inv-", the digest of the function, and the first 24 of at least 24 random hexadecimal digits."""
    return f"{_PREFIX}{function_digest(function)}{random[:_RANDOM_LENGTH]}"


def generated_for(invocation_id: str) -> str | None:
    """The digest of the function for which an ID was generated; None if it has not the form of a generated one."""
    found = _GENERATED.fullmatch(invocation_id)
    return None if found is None else found[1]


def belongs_to(invocation_id: str, function: ObjectKey) -> bool:
    """Whether an ID has the form of one that was generated for the function."""
    return generated_for(invocation_id) == function_digest(function)
