from hypothesis import given

from gpuruntime.api.names import UNIT_LABEL
from gpuruntime.desired.units.names import child_name, unit_labels, unit_selector
from gpuruntime.meta.names import is_dns_label
from tests.desired.unit_strategies import OBJECT_NAMES


def test_the_children_are_named_after_the_unit() -> None:
    assert child_name("demo-instance") == "unit-demo-instance"
    assert child_name("a" * 58) == "unit-" + "a" * 58


@given(OBJECT_NAMES)
def test_every_child_name_is_a_valid_service_name(name: str) -> None:
    child = child_name(name)

    assert is_dns_label(child)
    assert child.startswith("unit-")


@given(OBJECT_NAMES, OBJECT_NAMES)
def test_different_units_have_different_child_names(one: str, other: str) -> None:
    assert (child_name(one) == child_name(other)) == (one == other)


def test_long_or_dotted_names_that_differ_have_different_child_names() -> None:
    names = [*(f"{'a' * 70}-{index}" for index in range(100)), "a.b", "a-b", "a.b.c", "a-b.c", "a.b-c"]

    assert len({child_name(name) for name in names}) == len(names)


def test_no_short_name_has_the_child_name_of_a_long_one() -> None:
    long = child_name("a" * 100)

    assert child_name(long.removeprefix("unit-").lstrip("-")) != long


@given(OBJECT_NAMES)
def test_the_selector_is_the_unit_label_alone_and_every_pod_has_it(name: str) -> None:
    selector, labels = unit_selector(name), unit_labels(name)

    assert list(selector) == [UNIT_LABEL]
    assert selector.items() <= labels.items()
