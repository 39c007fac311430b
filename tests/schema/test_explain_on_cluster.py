from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuruntime.schema.custom_resource import definition
from gpuruntime.testing import ClusterAccess
from tests.schema.installed import Installed, eventually, installed
from tests.schema.rich_kind import Widget

GOLDEN_FIELD = """\
KIND:       Widget
VERSION:    v1

FIELD: size <integer>


DESCRIPTION:
    How big it is.

    It cannot change.
"""

GOLDEN_OBJECT = """\
KIND:       Widget
VERSION:    v1

FIELD: ports <[]Object>


DESCRIPTION:
    A door of the widget.

FIELDS:
  name	<string> -required-
    What others call it.

  number	<integer> -required-
    Where to knock.

  protocol	<string>
  enum: TCP, UDP
    How to knock.
"""


@pytest.fixture(scope="module")
def widgets(kube_cluster: ClusterAccess) -> Iterator[Installed]:
    with installed(kube_cluster, definition(Widget), "default") as kind:
        yield kind


def explained(kube_cluster: ClusterAccess, widgets: Installed, path: str, cache: Path) -> str:
    group = f"apis/{widgets.api_version}"
    # The server publishes schemas a moment after it serves the kind, and nothing tells when.
    eventually(lambda: group in str(widgets.admin.get("/openapi/v3")))
    eventually(lambda: "Widget" in str(widgets.admin.get(f"/openapi/v3/{group}")))
    text = kube_cluster.kubectl("explain", path, f"--api-version={widgets.api_version}", f"--cache-dir={cache}")
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("GROUP:")]
    return "\n".join(lines).rstrip() + "\n"


def test_a_field_is_explained_by_its_docstring(kube_cluster: ClusterAccess, widgets: Installed, tmp_path: Path) -> None:
    assert explained(kube_cluster, widgets, "widgets.spec.size", tmp_path) == GOLDEN_FIELD


def test_a_kind_is_explained_by_its_docstring(kube_cluster: ClusterAccess, widgets: Installed, tmp_path: Path) -> None:
    assert explained(kube_cluster, widgets, "widgets.spec.ports", tmp_path) == GOLDEN_OBJECT


def test_the_table_has_the_declared_columns(
    kube_cluster: ClusterAccess, widgets: Installed, kube_namespace: str
) -> None:
    path = widgets.path.replace("/default/", f"/{kube_namespace}/")
    body = widgets.body({"spec": {"size": 3, "name": "x"}})
    widgets.admin.create(path, {**body, "metadata": {"name": "one"}})

    resource = f"widgets.{widgets.api_version.partition('/')[0]}"
    table = kube_cluster.kubectl("get", resource, "-n", kube_namespace, "-o", "wide")

    assert [line.split() for line in table.splitlines()] == [["NAME", "SIZE", "MODE"], ["one", "3", "Safe"]]
