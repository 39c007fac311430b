"""The reconciler: from a Website to the objects that serve it, and back to its status."""

from datetime import UTC, datetime

from gpuruntime.control import Context, ForeignObjectError, Result
from website.children import deployment_of, failed_status, page_of, service_of, status_of
from website.kind import Website

__all__ = ["reconcile"]


async def reconcile(site: Website, ctx: Context) -> Result:
    """Keep a ConfigMap, a Service and a Deployment for a Website; Kubernetes deletes them with it."""
    now = datetime.now(UTC)
    try:
        await ctx.apply(page_of(site))
        await ctx.apply(service_of(site))
        served = await ctx.apply(deployment_of(site))
    except ForeignObjectError as error:
        ctx.record("Warning", "NameTaken", str(error))
        await ctx.update_status(failed_status(site, "NameTaken", str(error), now))
        return Result.after(60)  # the foreign object is not watched
    if served.result == "created":
        ctx.record("Normal", "Created", f"{site.spec.replicas} pods are to serve the page")
    await ctx.update_status(status_of(site, served.object, now))
    return Result.done()
