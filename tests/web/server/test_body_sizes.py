"""How much a body holds is known before anything is built of it."""

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.web.resources.unit_bodies import CreateUnitBody
from gpuruntime.web.server.body import decoded, parse_object
from gpuruntime.web.server.body_sizes import holds_too_much

TEXT = st.text(alphabet=st.sampled_from('a,[{:"\\\n\u20ac'), max_size=30)
JSON = st.recursive(
    st.one_of(TEXT, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=30,
)


def items_of(value: Any) -> int:
    """How many items and fields there are, counted one by one."""
    match value:
        case dict():
            return max(len(value), 1) + sum(map(items_of, value.values()))
        case list():
            return max(len(value), 1) + sum(map(items_of, value))
        case _:
            return 0


@given(value=st.one_of(st.lists(JSON), st.dictionaries(TEXT, JSON)), most=st.integers(1, 40), is_ascii=st.booleans())
def test_what_a_body_holds_is_counted_exactly_whatever_its_texts_say(value: Any, most: int, is_ascii: bool) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode()

    assert holds_too_much(data, most) == (items_of(value) > most)


def test_the_largest_unit_that_the_rules_allow_holds_little_enough() -> None:
    reference = {"secretKeyRef": {"name": "n", "key": "k", "optional": True}}
    envs = [{"name": f"E{number}", "valueFrom": reference} for number in range(256)]
    ports = [{"name": f"p{number}", "port": number + 1, "protocol": "TCP"} for number in range(32)]
    template = {"command": ["c"] * 256, "args": ["a,b"] * 256, "envs": envs, "ports": ports}
    labels = {f"l{number}": "v" for number in range(64)}
    secrets = [{"name": f"s{number}"} for number in range(16)]
    unit = {"name": "a", "specName": "g", "image": "i", "labels": labels, "imagePullSecrets": secrets}

    assert decoded(parse_object(orjson.dumps(unit | {"template": template})), CreateUnitBody).name == "a"
