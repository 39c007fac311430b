import os
import socket
import threading
from pathlib import Path

import pytest

from gpuruntime.gateway.accessor.volume import NoSuchFileError, RefusedFileError, Volume

BOTH = pytest.mark.parametrize("openat2", [True, False], ids=["openat2", "walk"])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A volume, beside what must not be read."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    root = tmp_path / "data"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").write_text("inside")
    return root


def read(volume: Volume, *names: bytes) -> bytes:
    with volume.open(names) as opened:
        return os.read(opened.fd, 100)


@BOTH
def test_files_and_directories_of_a_volume_are_opened(data: Path, openat2: bool) -> None:
    volume = Volume(data, openat2=openat2)

    content = read(volume, b"sub", b"file")
    with volume.open(()) as root, volume.open((b"sub",)) as sub:
        kinds = (root.is_directory, sub.is_directory)

    assert (content, kinds) == (b"inside", (True, True))
    volume.close()


@BOTH
@pytest.mark.parametrize(
    "target", ["../secret", "/etc/passwd", "../outside/file", "..", "/", "../data/sub/file", "sub/../../secret", "loop"]
)
def test_a_link_out_of_the_volume_is_refused(data: Path, target: str, openat2: bool) -> None:
    (data / "loop").symlink_to(target)
    volume = Volume(data, openat2=openat2)

    with pytest.raises(RefusedFileError):
        read(volume, b"loop")
    with pytest.raises((RefusedFileError, NoSuchFileError)):
        read(volume, b"loop", b"file")
    volume.close()


def test_a_link_within_the_volume_is_followed_where_the_kernel_can_keep_it_inside(data: Path) -> None:
    (data / "link").symlink_to("sub/../sub/file")
    kernel, walk = Volume(data), Volume(data, openat2=False)

    content = read(kernel, b"link")
    with pytest.raises(RefusedFileError):
        read(walk, b"link")

    assert content == b"inside"
    kernel.close()
    walk.close()


@BOTH
def test_names_that_lead_up_are_refused(data: Path, openat2: bool) -> None:
    volume = Volume(data, openat2=openat2)

    for names in ((b"..", b"secret"), (b"sub", b"..", b"..", b"secret"), (b"/etc/passwd",), (b"sub/../../secret",)):
        with pytest.raises(RefusedFileError):
            read(volume, *names)
    volume.close()


@BOTH
def test_devices_pipes_and_sockets_are_refused_without_being_opened(data: Path, openat2: bool) -> None:
    os.mkfifo(data / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(data / "socket"))
    refused = [b"pipe", b"socket"]
    if os.geteuid() == 0:
        os.mknod(data / "zero", 0o20666, os.makedev(1, 5))
        refused.append(b"zero")
    volume = Volume(data, openat2=openat2)

    for name in refused:
        with pytest.raises(RefusedFileError, match="neither a file nor a directory"):
            read(volume, name)

    listener.close()
    volume.close()


@BOTH
def test_missing_files_are_not_found(data: Path, openat2: bool) -> None:
    volume = Volume(data, openat2=openat2)

    for names in ((b"nothing",), (b"sub", b"nothing"), (b"sub", b"file", b"more"), (b"x" * 300,)):
        with pytest.raises(NoSuchFileError):
            read(volume, *names)
    volume.close()


@BOTH
def test_a_directory_that_is_swapped_for_a_link_meanwhile_never_shows_what_is_outside(
    data: Path, openat2: bool
) -> None:
    volume, stop = Volume(data, openat2=openat2), threading.Event()
    (data / "link").symlink_to("../outside")

    def swap() -> None:
        while not stop.is_set():
            (data / "sub").rename(data / "kept")
            (data / "link").rename(data / "sub")
            (data / "sub").rename(data / "link")
            (data / "kept").rename(data / "sub")

    swapper = threading.Thread(target=swap)
    swapper.start()
    found = set()
    for _ in range(3000):
        try:
            found.add(read(volume, b"sub", b"file"))
        except (RefusedFileError, NoSuchFileError) as error:
            found.add(type(error).__name__.encode())
    stop.set()
    swapper.join()
    found.add(read(volume, b"sub", b"file"))

    assert b"inside" in found
    assert b"secret" not in found
    volume.close()
