"""The SDK of user functions. It imports the standard library only, so that it can be copied into an image alone.

A function in five lines::

    from gpuruntime.framework import serve


    def hello(payload, context):
        return {"hello": payload["name"]}


    serve(hello)

`python -m gpuruntime.framework module:hello` does the same without the last line.
"""

from gpuruntime.framework.context import Context
from gpuruntime.framework.envelope import Response
from gpuruntime.framework.serving import serve
from gpuruntime.framework.socket_file import SocketFileError
from gpuruntime.framework.user_function import FunctionError

__all__ = ["Context", "FunctionError", "Response", "SocketFileError", "serve"]
