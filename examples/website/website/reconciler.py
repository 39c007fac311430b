"""From a Website to the objects that serve it, and back to its status."""

from datetime import UTC, datetime

from attrs import frozen

from gpuruntime.control import ForeignObjectError, Recorder, Result, RunInfo, Store, Writer, write_status
from gpuruntime.kube import Client
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap, Service
from gpuruntime.meta import ObjectKey
from website.children import deployment_of, hindered_status, page_of, service_of, status_of
from website.kind import Website

__all__ = ["WebsiteReconciler"]


@frozen
class WebsiteReconciler:
    """Keeps a ConfigMap, a Deployment and a Service for each Website; Kubernetes removes them with it."""

    websites: Store[Website]
    pages: Store[ConfigMap]
    deployments: Store[Deployment]
    services: Store[Service]
    client: Client
    writer: Writer
    recorder: Recorder

    async def reconcile(self, key: ObjectKey, context: RunInfo) -> Result:
        site = self.websites.get(key)
        if site is None or site.metadata.deletion_timestamp is not None:
            return Result.done()
        now = datetime.now(UTC)
        try:
            await self.writer.ensure(page_of(site), site, live=self.pages.get(key))
            await self.writer.ensure(service_of(site), site, live=self.services.get(key))
            served = await self.writer.ensure(deployment_of(site), site, live=self.deployments.get(key))
        except ForeignObjectError as error:
            self.recorder.record(site, "Warning", "NameTaken", "Serve", str(error))
            await write_status(self.client, site, hindered_status(site, "NameTaken", str(error), now))
            return Result.after(60)  # what is in the way is not watched, so nobody tells us when it is gone
        if served.result == "created":
            self.recorder.record(site, "Normal", "Created", "Serve", f"{site.spec.replicas} pods are to serve the page")
        await write_status(self.client, site, status_of(site, served.object, now))
        return Result.done()
