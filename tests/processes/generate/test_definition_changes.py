from pathlib import Path
from typing import Any

import pytest

from gpuruntime.processes.generate.definition_changes import ReleasedError, changes_since, read_definitions


def definition(name: str, maximum: int = 9) -> dict[str, Any]:
    size = {"type": "integer", "maximum": maximum}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"size": size}}}
    return {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def test_definitions_are_read_from_any_yaml_beside_anything_else(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("kind: ConfigMap\n---\nkind: CustomResourceDefinition\nmetadata: {name: a}\n")
    (tmp_path / "more.yml").write_text("kind: CustomResourceDefinition\nmetadata: {name: b}\n---\n")
    (tmp_path / "README.md").write_text("{")

    assert set(read_definitions(tmp_path)) == {"a", "b"}


def test_definitions_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReleasedError, match="CustomResourceDefinition"):
        read_definitions(tmp_path)
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(ReleasedError, match=r"bad\.yaml .*line 1"):
        read_definitions(tmp_path)


def test_a_kind_that_is_new_breaks_nothing_and_one_that_changes_or_goes_does() -> None:
    released = {"kept": definition("kept"), "gone": definition("gone")}

    changes = list(changes_since(released, [definition("kept", 5), definition("new")]))

    assert [(name, change.severity) for name, change in changes] == [("kept", "breaking"), ("gone", "breaking")]
    assert "spec.versions[v1].schema" in changes[0][1].path
