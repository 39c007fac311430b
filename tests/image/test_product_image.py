"""The image without Docker is the Dockerfile's, on another interpreter."""

from pathlib import Path

from gpuruntime.testing.images import Directory, File, Link
from gpuruntime.testing.images.layers import Content
from hack.dev.product_image import relocated


def test_a_virtual_environment_uses_the_interpreter_of_the_image(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text(
        "home = /root/python/bin\ninclude-system-site-packages = false\nversion = 3.11.7\nexecutable = /root/python\n"
    )
    script = File(b"#!/opt/x/bin/python\n", 0o755)
    files: dict[str, Content] = {
        "/opt/x/bin": Directory(),
        "/opt/x/bin/python": Link("/root/python/bin/python3.11"),
        "/opt/x/bin/python3": Link("python"),
        "/opt/x/bin/tool": script,
        "/opt/x/lib64": Link("lib"),
        "/opt/x/pyvenv.cfg": File(tmp_path / "pyvenv.cfg"),
    }

    moved = relocated(files)

    assert moved == {
        **files,
        "/opt/x/bin/python": Link("/usr/local/bin/python3"),
        "/opt/x/pyvenv.cfg": "home = /usr/local/bin\ninclude-system-site-packages = false\nversion = 3.11.7\n",
    }
