"""`python -m gpuruntime.framework module:function` serves a function."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from gpuruntime.framework.serving import serve
from gpuruntime.framework.socket_file import SocketFileError
from gpuruntime.framework.target import load_target
from gpuruntime.framework.user_function import FunctionError

__all__ = ["main"]

_TERMINATED = 128 + signal.SIGTERM


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C; 1 if the function, an option or the socket is invalid."""
    if os.getpid() == 1:
        # The kernel drops a signal that process 1 has no handler for: a worker that is deleted while its module is
        # imported would end with its grace period only.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    parser = argparse.ArgumentParser(
        prog="python -m gpuruntime.framework",
        description="Serve a function of (payload, context) on a unix socket, until SIGTERM or Ctrl-C.",
        allow_abbrev=False,
    )
    parser.add_argument("target", metavar="TARGET", help="module:function or path/file.py:function")
    parser.add_argument("--setup", metavar="NAME", help="a function in the same module that runs first")
    parser.add_argument(
        "--concurrency", type=int, metavar="N", help="invocations at a time (SERVERLESS_CONCURRENCY, 1)"
    )
    parser.add_argument("--socket", metavar="PATH", help="the unix socket (SERVERLESS_FRAMEWORK_SOCKET_PATH)")
    arguments = parser.parse_args(argv)
    try:
        function = load_target(arguments.target)
        where = arguments.target.rpartition(":")[0]
        setup = load_target(f"{where}:{arguments.setup}") if arguments.setup else None
        serve(function, setup=setup, concurrency=arguments.concurrency, socket_path=arguments.socket)
    except (FunctionError, SocketFileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
