from pathlib import Path

import pytest

from gpuruntime.testing.node.mounts import file_system_of, mounts

TEXT = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 22 0:26 / /data rw,relatime shared:9 master:3 - tmpfs tmpfs rw,size=8k
31 22 0:27 / /srv/two\040words rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b
32 30 0:28 / /data rw,relatime - xfs /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/work", "ext4"), ("/data", "xfs"), ("/data/a/b", "xfs"), ("/data-2", "ext4"), ("/srv/two words/a", "overlay")],
)
def test_the_file_system_of_a_path_is_the_last_one_mounted_closest_above_it(path: str, kind: str) -> None:
    assert file_system_of(Path(path), mounts(TEXT)) == kind


def test_options_are_those_of_the_file_system() -> None:
    assert mounts(TEXT)[0].options == {"rw", "discard"}


def test_a_path_without_a_mount_is_unknown() -> None:
    assert file_system_of(Path("/work"), []) == "unknown"
