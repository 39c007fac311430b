"""The token of a pod in a file, as the kubelet projects it: bound to the pod, for one audience, renewed in time."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from attrs import frozen

from gpuruntime.api.serverless import TOKEN_AUDIENCE, TOKEN_SECONDS
from gpuruntime.kube import Client, KubeError
from gpuruntime.kube.builtin.core import ServiceAccount
from gpuruntime.kube.builtin.pods import Pod

__all__ = ["PodToken"]

_LOG: Final = logging.getLogger(__name__)
# The kubelet renews a token when 80 % of its life are over.
_RENEWAL: Final = 0.8
_RETRY_SECONDS: Final = 2.0


@frozen
class PodToken:
    """The token of a pod's ServiceAccount that is valid as long as the pod exists."""

    client: Client
    namespace: str
    account: str
    pod: str
    uid: str
    file: Path

    @classmethod
    def of(cls, client: Client, pod: Pod, file: Path) -> "PodToken":
        meta = pod.metadata
        return cls(client, meta.namespace, pod.spec.service_account_name or "default", meta.name, meta.uid or "", file)

    async def write(self) -> None:
        """Ask for a token and replace the file, which only this user can read.

        Raises:
            KubeError: the API server refuses it, or is away.
        """
        spec = {
            "audiences": [TOKEN_AUDIENCE],
            "expirationSeconds": TOKEN_SECONDS,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": self.pod, "uid": self.uid},
        }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.client.create_subresource(ServiceAccount, self.account, self.namespace, "token", body)
        # A reader finds the old token or the new one, never a part.
        new = self.file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(answer["status"]["token"])
        new.replace(self.file)

    async def renew(self) -> None:
        """Write a new token in time, for ever. While the API server refuses it, the old one stays."""
        wait = TOKEN_SECONDS * _RENEWAL
        while True:
            await asyncio.sleep(wait)
            try:
                await self.write()
                wait = TOKEN_SECONDS * _RENEWAL
            except KubeError as error:
                _LOG.warning("token not renewed", extra={"pod": f"{self.namespace}/{self.pod}", "error": str(error)})
                wait = _RETRY_SECONDS
