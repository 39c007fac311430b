import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from gpuruntime.testing.node import forwarder

HOST = "127.0.0.1"


@contextmanager
def forwarding(target: int) -> Iterator[int]:
    """A forwarder to a port of loopback, which listens when the block begins; gives its own port."""
    with socket.create_server((HOST, 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-I", forwarder.__file__, HOST, str(port), HOST, str(target)]
    with subprocess.Popen(command) as process:
        try:
            while process.poll() is None:
                with closing(socket.socket()) as client:
                    if client.connect_ex((HOST, port)) == 0:
                        break
            yield port
        finally:
            process.kill()


def test_both_directions_are_forwarded_and_half_closed() -> None:
    with socket.create_server((HOST, 0)) as server, forwarding(server.getsockname()[1]) as port:
        server.accept()[0].close()  # of the connection that waited for the forwarder
        with socket.create_connection((HOST, port)) as client:
            client.sendall(b"question")
            client.shutdown(socket.SHUT_WR)
            remote, _ = server.accept()
            with remote:
                question = b"".join(iter(lambda: remote.recv(100), b""))
                remote.sendall(question + b", answer")
            answer = b"".join(iter(lambda: client.recv(100), b""))

    assert answer == b"question, answer"


def test_a_connection_ends_at_once_while_the_target_is_away() -> None:
    with socket.create_server((HOST, 0)) as server:
        target = server.getsockname()[1]
        with forwarding(target) as port:
            server.close()
            with socket.create_connection((HOST, port)) as client:
                try:
                    answer = client.recv(100)
                except ConnectionResetError:
                    answer = b""

    assert answer == b""
