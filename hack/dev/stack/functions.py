"""Functions on a stack: the NATS server of their queues, what the manager needs for them, and the sample `hello`."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gpuruntime.api.invocations.access import MANAGER_USER
from gpuruntime.testing.images import ImageStore
from gpuruntime.testing.nats import NatsServer
from gpuruntime.testing.processes.free_port import free_port
from gpuruntime.testing.processes.supervised import ChildProcesses
from hack.dev.checkout_image import add_functions_image
from hack.dev.stack.clusters import Cluster, StackError

__all__ = ["NATS", "deploy_sample", "functions"]

NATS: Final = "nats"
_SAMPLE: Final = Path(__file__).resolve().parents[3] / "examples" / "functions" / "hello.yaml"
_DATABASE: Final = "results.db"
_PATIENCE_SECONDS: Final = 60.0
_READY_SECONDS: Final = 120


@contextmanager
def functions(cluster: Cluster, directory: Path, sources: Path) -> Iterator[dict[str, Any]]:
    """Run NATS for the length of the block; yields the manager's config of functions.

    It is empty where the workers of the cluster could not reach the manager. Queues and results of an earlier stack are
    removed: its functions are gone, too.
    """
    if cluster.workers is None:
        yield {}
        return
    for file in directory.glob(f"{_DATABASE}*"):
        file.unlink()
    if cluster.images is not None:
        add_functions_image(ImageStore(cluster.images), sources)
    # The processes of a killed owner have ended when the lock is free.
    with ChildProcesses(directory / NATS, _PATIENCE_SECONDS):
        pass
    shutil.rmtree(directory / NATS)
    with NatsServer(directory / NATS) as server:
        address = f"{cluster.workers.host}:{free_port()}"
        user = MANAGER_USER.name
        yield {
            "serverless": {
                "nats": {
                    "urls": [server.url],
                    "userFile": str(server.files.user_file(user)),
                    "passwordFile": str(server.files.password_file(user)),
                },
                "sidecarImage": cluster.workers.sidecar_image,
                "activatorURL": f"ws://{address}",
            },
            "activator": {"httpAddr": address},
            "database": {"file": str(directory / _DATABASE)},
        }


def deploy_sample(cluster: Cluster) -> None:
    """Create the function `hello`, and wait until its worker is ready.

    Raises:
        StackError: it is not ready in time; the message says why.
    """
    cluster.kubectl("apply", "--filename", str(_SAMPLE))
    ready = ("wait", "--for=condition=Ready", f"--timeout={_READY_SECONDS}s")
    try:
        cluster.kubectl(*ready, "--filename", str(_SAMPLE))
    except StackError as error:
        why = cluster.kubectl("get", "--output=wide", "--filename", str(_SAMPLE))
        raise StackError(f"the function hello is not ready: {error}\n{why}") from None
