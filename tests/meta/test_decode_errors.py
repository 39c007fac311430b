import pickle

import pytest

from gpuruntime.meta.decode_errors import DecodeError, Failure, Mismatch, failures_of


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), "wrong @ $"),
        (("spec", "replicas"), "wrong @ $.spec.replicas"),
        (("items", 0, "name"), "wrong @ $.items[0].name"),
        (("labels", "example.org/a"), "wrong @ $.labels['example.org/a']"),
        (("labels", ""), "wrong @ $.labels['']"),
    ],
)
def test_a_failure_has_its_path(path: tuple[str | int, ...], expected: str) -> None:
    assert str(Failure("wrong", "wrong", path)) == expected


@pytest.mark.parametrize(
    ("value", "quoted", "described"),
    [
        ("abc", "'abc'", "a string"),
        (3, "3", "an integer"),
        (3.0, "3.0", "a number with a fraction"),
        (True, "true", "true"),
        (None, "null", "null"),
        ({"a": 1}, "an object", "an object"),
        ([1], "a list", "a list"),
        (b"x", "b'x'", "a bytes"),
    ],
)
def test_a_mismatch_quotes_scalars_and_describes_the_rest(value: object, quoted: str, described: str) -> None:
    (failure,) = Mismatch.expected("a boolean", value).failures

    assert failure.text == f"expected a boolean, got {quoted}"
    assert failure.redacted == f"expected a boolean, got {described}"


def test_long_values_are_truncated() -> None:
    (failure,) = Mismatch.expected("an integer", "x" * 10_000).failures

    assert len(failure.text) < 150


def test_outer_keys_come_first_and_sensitive_fields_are_not_quoted() -> None:
    inner = Mismatch(failures_of(Mismatch.expected("a string", 42), "password"))

    (failure,) = failures_of(inner, "data", sensitive=True)

    assert str(failure) == "expected a string, got an integer @ $.data.password"


def test_the_message_of_any_other_error_becomes_a_failure() -> None:
    (failure,) = failures_of(ValueError("must be even", "attribute", 3), "count")
    (nameless,) = failures_of(ValueError(), "count")

    assert str(failure) == "must be even @ $.count"
    assert str(nameless) == "ValueError @ $.count"


def test_a_decode_error_has_all_failures_and_survives_pickling() -> None:
    error = DecodeError("Widget ns/x", ["one @ $.a", "two @ $.b"])

    twin = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes

    assert str(twin) == str(error) == "cannot decode Widget ns/x: one @ $.a; two @ $.b"
    assert twin.failures == ("one @ $.a", "two @ $.b")
