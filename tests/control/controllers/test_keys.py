"""Of which type the keys of a controller are."""

from attrs import frozen

from gpuruntime.control.controllers.keys import key_type_of
from gpuruntime.meta.identity import ObjectKey


@frozen
class Place:
    name: str

    @classmethod
    def parse(cls, text: str) -> "Place":
        return cls(text)


def shout(text: str) -> str:
    return text.upper()


def anything(text: str) -> object:
    return text


def mistaken(text: str) -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821 - an annotation that cannot be resolved
    return text


def test_the_type_of_keys_is_what_their_parser_makes() -> None:
    assert key_type_of(ObjectKey.parse) is ObjectKey
    assert key_type_of(Place.parse) is Place
    assert key_type_of(Place) is Place
    assert key_type_of(str) is str
    assert key_type_of(shout) is str


def test_where_that_cannot_be_known_any_key_will_do() -> None:
    assert key_type_of(anything) is None
    assert key_type_of(mistaken) is None
    assert key_type_of(lambda text: text) is None
