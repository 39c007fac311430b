"""Programs that answer, each in a process of its own: an HTTP echo in aiohttp, and a responder on NATS.

Each prints one line when it answers: the port of the echo, or the subject of the responder.
"""

import argparse
import asyncio
from pathlib import Path

from aiohttp import web

from gpuruntime.bus import Bus, BusCredentials, BusOptions, Message

__all__ = ["SUBJECT", "main"]

SUBJECT = "bench.echo"
"""What the responder answers."""
_SETTLE_SECONDS = 10.0


async def serve_http() -> None:
    """Echo the bodies of POST requests on a free port."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read(), content_type=request.content_type)

    app = web.Application()
    app.router.add_post("/", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


async def reply(url: str, credentials: BusCredentials, inbox_prefix: str) -> None:
    """Answer requests on a subject with their body."""
    bus = Bus(BusOptions((url,), "bench responder", credentials, inbox_prefix=inbox_prefix))

    def answer(message: Message) -> None:
        bus.send(message.reply, message.body)

    with bus.listen(SUBJECT, answer):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bus.run())
            await bus.wait_connected()
            await bus.settled(_SETTLE_SECONDS)
            print(SUBJECT, flush=True)


def main() -> None:
    """Run one of them until it is killed, on uvloop if it is installed, as the product does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=("http", "reply"))
    parser.add_argument("--url", default="")
    parser.add_argument("--user-file", type=Path)
    parser.add_argument("--password-file", type=Path)
    parser.add_argument("--inbox-prefix", default="")
    given = parser.parse_args()
    credentials = BusCredentials(given.user_file, given.password_file)
    work = serve_http() if given.program == "http" else reply(given.url, credentials, given.inbox_prefix)
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - it may not be installed
    except ImportError:
        asyncio.run(work)
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(work)


if __name__ == "__main__":
    main()
