from hypothesis import given

from gpuruntime.api import names
from gpuruntime.api.names import GROUP, label_value
from gpuruntime.meta.label_selectors import Requirement
from tests.desired.unit_strategies import OBJECT_NAMES


def test_public_labels_and_annotations_never_change() -> None:
    texts = [value for value in vars(names).values() if isinstance(value, str)]
    ours = {text.removeprefix(f"{GROUP}/") for text in texts if f"{GROUP}/" in text}

    assert GROUP == "runtime.lokiwager.io"
    assert ours >= {
        *("unit", "pool", "operation-id", "request-hash", "stock-claim-id", "stock-replicas", "stock-ordinal"),
        *("source-stock-name", "source-stock-namespace", "source-stock-uid", "source-pool", "render-on"),
    }


@given(OBJECT_NAMES)
def test_every_object_name_has_a_valid_label_value(name: str) -> None:
    value = label_value(name)

    assert Requirement(GROUP, "In", (value,)).matches({GROUP: value})
    assert value == name or len(name) > 63


@given(OBJECT_NAMES, OBJECT_NAMES)
def test_different_names_have_different_label_values(one: str, other: str) -> None:
    assert (label_value(one) == label_value(other)) == (one == other)


def test_long_names_that_differ_at_the_end_have_different_label_values() -> None:
    long = "a" * 80

    values = {label_value(f"{long}-{index}") for index in range(100)}

    assert len(values) == 100


def test_no_object_name_equals_the_label_value_of_a_long_name() -> None:
    assert "_" in label_value("a" * 64)
