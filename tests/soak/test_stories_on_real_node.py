"""The product's own image as pods on a real node: all stories that can run there."""

import subprocess
from pathlib import Path

import pytest

from gpuruntime.testing.plugin import skip_without_real_node

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.soak
@pytest.mark.real_node
@pytest.mark.timeout(1800)
def test_the_stories_pass_against_pods_of_the_image_that_is_built_without_docker() -> None:
    skip_without_real_node()

    done = subprocess.run([ROOT / "hack" / "e2e", "--real-node"], check=False)

    assert done.returncode == 0
