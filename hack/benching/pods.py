"""The objects that everybody is measured on: pods that nobody schedules."""

import asyncio
import json
import ssl
from typing import Any

import aiohttp

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.progress import Progress

__all__ = ["ObjectsError", "create_pods", "pod"]

_CONNECTIONS = 16
_NAMESPACE = "default"


class ObjectsError(Exception):
    """The objects could not be created."""


def pod(number: int) -> dict[str, Any]:
    """A pod as an inference service has them, with about 1.5 KB of spec."""
    environment = [
        {"name": f"SETTING_{index}", "value": f"a value of some length, as settings have it, {number}-{index}"}
        for index in range(7)
    ]
    container = {
        "name": "server",
        "image": "registry.example.org/team/inference-server:v1.27.3-cuda12.8",
        "args": ["--model=/models/current", "--port=8080", f"--replica={number}", "--log-format=json"],
        "env": environment,
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi"},
            "limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"},
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/livez", "port": 8080}, "periodSeconds": 20},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "scratch", "mountPath": "/scratch"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"bench-{number:06d}",
            "namespace": _NAMESPACE,
            "labels": {"app": "bench", "shard": str(number % 64), "app.kubernetes.io/name": "inference-server"},
            "annotations": {"example.org/requested-by": f"user-{number % 97}@example.org"},
        },
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [
                {"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
                {"name": "scratch", "emptyDir": {"sizeLimit": "50Gi"}},
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


async def create_pods(access: ClusterAccess, count: int, progress: Progress) -> None:
    """Create `count` pods over several connections.

    Raises:
        ObjectsError: the API server refused one, or went away.
    """
    progress.step(f"creating {count:,} pods")
    tls = ssl.create_default_context(cafile=str(access.authority))
    tls.load_cert_chain(access.certificate, access.key)
    numbers = iter(range(count))
    done = 0

    async def create(session: aiohttp.ClientSession) -> None:
        nonlocal done
        for number in numbers:
            async with session.post(f"/api/v1/namespaces/{_NAMESPACE}/pods", data=json.dumps(pod(number))) as answer:
                if answer.status != 201:
                    raise ObjectsError(f"pod {number}: HTTP {answer.status}: {(await answer.text())[:256]}")
                await answer.read()
            done += 1
            progress.advance("creating pods", done, count)

    connector = aiohttp.TCPConnector(ssl=tls, limit=_CONNECTIONS)
    headers = {"Content-Type": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(access.server, connector=connector, headers=headers) as session,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(_CONNECTIONS):
                group.create_task(create(session))
    except ExceptionGroup as failed:
        expected, unexpected = failed.split((ObjectsError, aiohttp.ClientError, OSError))
        if expected is None or unexpected is not None:
            raise
        raise ObjectsError(f"the pods could not be created: {expected.exceptions[0]}") from failed
