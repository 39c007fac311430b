from gpuruntime.framework import Context


def hello(payload: dict[str, str], context: Context) -> dict[str, str]:
    context.log.info("saying hello")
    return {"hello": payload["name"]}
