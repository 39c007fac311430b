import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.processes.generate.manifest_yaml import render
from gpuruntime.testing import ClusterAccess

# Each is a text that some YAML parser reads as another type.
TRICKY = (
    *("y", "N", "yes", "Off", "true", "null", "~", "=", "<<", "-", "--"),
    *("1e3", "0x1F", "0o17", "017", "0b1", "1_000", ".5", "-1", "+.inf", ".NaN"),
    *("12:30:45", "2026-11-16", "1.2.3", "7h"),
)
TEXTS = st.text() | st.sampled_from(TRICKY) | st.lists(st.text("ab \n\t:#'-"), max_size=3).map("\n".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3), min_size=1, max_size=3))
def test_rendered_objects_are_parsed_as_equal_objects(objects: list[dict[str, Any]]) -> None:
    text = render(objects, "made by a test")

    assert list(yaml.safe_load_all(text)) == objects
    assert text == render([dict(reversed(item.items())) for item in objects], "made by a test")


def test_kubectl_reads_the_same(kube_cluster: ClusterAccess) -> None:
    texts = [*TRICKY, "", "two\nlines", "  indented\n", "trailing \nspace", "ends\n\n", "tab\tbed", "é 🦊"]
    data = {f"k{number}": text for number, text in enumerate(texts)}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tricky"}, "data": data}

    read = kube_cluster.kubectl(
        "create", "--dry-run=client", "-o", "json", "-f", "-", input_text=render([manifest], "made by a test")
    )

    assert json.loads(read)["data"] == data


def test_it_looks_like_kubectl_with_a_comment_on_top() -> None:
    role = {"kind": "Role", "rules": [{"apiGroups": [""], "verbs": ["get", "list"]}], "apiVersion": "v1"}

    text = render([role, {"note": "two\nlines"}], "made by a test")

    assert text == (
        "# made by a test\n"
        "apiVersion: v1\nkind: Role\nrules:\n"
        '- apiGroups:\n  - ""\n  verbs:\n  - get\n  - list\n'
        "---\nnote: |-\n  two\n  lines\n"
    )
