from gpuruntime.framework import Context


def countdown(payload: dict[str, float], context: Context) -> dict[str, bool]:
    """Wait for some seconds, or until the invocation is cancelled."""
    return {"finished": not context.cancel_event.wait(payload["seconds"])}
