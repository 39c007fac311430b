"""Short names of images mean what they mean to a container runtime."""

import pytest

from gpuruntime.testing.images.references import Reference


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("team/server", "docker.io/team/server:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("localhost/a", "localhost/a:latest"),
        ("localhost:5000/a/b:c", "localhost:5000/a/b:c"),
        ("registry:5000/a", "registry:5000/a:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("gpuruntime.local/a/b/c:1_2-3.4", "gpuruntime.local/a/b/c:1_2-3.4"),
    ],
)
def test_a_short_name_means_a_whole_one(name: str, whole: str) -> None:
    assert str(Reference.parse(name)) == whole
    assert Reference.parse(whole) == Reference.parse(name)


@pytest.mark.parametrize(
    "name", ["", "A", "a/B", "a:", ":b", "a//b", "/a", "a/", "a:b:c", "a b", "-a", "a@sha256:1", "../a"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="image"):
        Reference.parse(name)
