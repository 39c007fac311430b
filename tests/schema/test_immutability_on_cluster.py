from collections.abc import Iterator
from typing import Any

import pytest

from gpuruntime.schema.custom_resource import definition
from gpuruntime.testing import ClusterAccess, RefusedError
from tests.schema.installed import Installed, installed
from tests.schema.rich_kind import Widget


@pytest.fixture(scope="module")
def widgets(kube_cluster: ClusterAccess) -> Iterator[Installed]:
    with installed(kube_cluster, definition(Widget), "default") as kind:
        yield kind


def changed(widgets: Installed, spec: dict[str, Any], patch: dict[str, Any]) -> str:
    """The server's error for a change of a stored object; empty if it is allowed."""
    stored = widgets.store({"spec": {"size": 3, "name": "x", **spec}})
    try:
        widgets.admin.merge(f"{widgets.path}/{stored['metadata']['name']}", {"spec": patch})
    except RefusedError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("spec", "patch", "problem"),
    [
        ({}, {"size": 4}, "spec.size: Invalid value: 4"),
        ({"color": "red"}, {"color": "blue"}, "spec.color: Invalid value"),
        ({"color": "red"}, {"color": None}, "color is immutable"),
        ({}, {"color": "red"}, "color is immutable"),
        ({}, {"namespace": "a"}, "spec.namespace: Invalid value"),
        ({"window": {"owner": "me"}}, {"window": {"owner": "you"}}, "spec.window.owner: Invalid value"),
        ({"windows": {"a": {"owner": "me"}}}, {"windows": {"a": {"owner": None}}}, "spec.windows[a].owner"),
    ],
)
def test_an_immutable_field_is_neither_changed_nor_set_nor_unset(
    widgets: Installed, spec: dict[str, Any], patch: dict[str, Any], problem: str
) -> None:
    assert problem in changed(widgets, spec, patch)


def test_everything_else_can_change(widgets: Installed) -> None:
    spec = {"color": "red", "window": {"owner": "me"}}
    patch = {"name": "y", "low": 1, "color": "red", "size": 3, "window": {"grace": 5}}

    assert changed(widgets, spec, patch) == ""


def test_a_rule_of_the_class_is_checked_and_names_its_field(widgets: Installed) -> None:
    with pytest.raises(RefusedError, match=r"spec\.low: Invalid value"):
        widgets.dry_run({"spec": {"size": 3, "name": "x", "low": 11}})


def test_the_status_is_a_subresource_and_the_kind_scales(widgets: Installed) -> None:
    body = widgets.body({"spec": {"size": 3, "name": "x"}, "status": {"replicas": 7}})
    created = widgets.admin.create(widgets.path, body)
    path = f"{widgets.path}/{created['metadata']['name']}"

    widgets.admin.merge(f"{path}/status", {"spec": {"name": "ignored"}, "status": {"conditions": []}})
    widgets.admin.merge(f"{path}/scale", {"spec": {"replicas": 4}})

    after = widgets.admin.get(path)
    assert "status" not in created
    assert after["status"] == {"replicas": 0, "conditions": []}
    assert (after["spec"]["replicas"], after["spec"]["name"]) == (4, "x")
