"""Subjects and IDs of invocations."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.invocations import (
    INVOCATION_ID,
    InvocationKey,
    belongs_to,
    function_stream,
    key_of_subject,
    make_invocation_id,
    queue_subject,
    result_subject,
)
from gpuruntime.meta import ObjectKey

_LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
_IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,40}", fullmatch=True)
_KEYS = st.builds(InvocationKey, _LABEL, _LABEL, _IDS)


@given(_KEYS)
def test_a_subject_names_its_invocation(key: InvocationKey) -> None:
    subject = queue_subject(key)

    assert key_of_subject(subject) == key
    assert len(subject.split(".")) == 4
    assert not re.search(r"[\s*>]", subject)


@given(_KEYS, _KEYS)
def test_two_invocations_share_no_subject_and_two_functions_no_stream(one: InvocationKey, other: InvocationKey) -> None:
    assert (result_subject(one) == result_subject(other)) == (one == other)
    assert (function_stream(one.function_key) == function_stream(other.function_key)) == (
        one.function_key == other.function_key
    )


@pytest.mark.parametrize("subject", ["", "inv", "inv.a.b", "inv.a.b.c.d", "inv..b.c"])
def test_another_subject_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match="expected a subject"):
        key_of_subject(subject)


def test_a_generated_id_names_its_function() -> None:
    function = ObjectKey("runtime-instance", "hello")

    made = make_invocation_id(function, "0123456789abcdef" * 2)

    assert re.fullmatch(r"inv-[0-9a-f]{32}", made)
    assert re.fullmatch(INVOCATION_ID.regex, made)
    assert belongs_to(made, function)
    assert not belongs_to(made, ObjectKey("runtime-instance", "other"))
    assert not belongs_to("inv-" + "0" * 31, function)
