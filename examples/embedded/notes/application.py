"""The application: routes, and where the note board is started and stopped."""

from collections.abc import AsyncIterator, Callable

from aiohttp import web

from gpuruntime.kube import AlreadyExistsError, KubeError
from notes.cluster import NoteBoard

__all__ = ["application"]

BOARD = web.AppKey("board", NoteBoard)


def application(make_board: Callable[[], NoteBoard]) -> web.Application:
    """The web application. The board is made when the loop runs, and stopped with the application at the latest."""

    async def board(app: web.Application) -> AsyncIterator[None]:
        app[BOARD] = make_board()
        app[BOARD].start()
        yield
        await app[BOARD].stop()

    app = web.Application()
    app.cleanup_ctx.append(board)
    app.router.add_get("/", hello)
    app.router.add_get("/notes", list_notes)
    app.router.add_post("/notes", add_note)
    app.router.add_delete("/board", stop_board)
    return app


async def hello(request: web.Request) -> web.Response:
    """What the application could do all along, whatever becomes of the cluster."""
    return web.json_response({"board": "runs" if request.app[BOARD].runs else "stopped"})


async def list_notes(request: web.Request) -> web.Response:
    """Answered from the cache: it costs no request, and shows what was last known if the board is stopped."""
    return web.json_response({note.metadata.name: dict(note.data) for note in request.app[BOARD].notes.all()})


async def add_note(request: web.Request) -> web.Response:
    body = await request.json()
    try:
        await request.app[BOARD].notes.add(body["name"], body["text"])
    except AlreadyExistsError as error:
        raise web.HTTPConflict(text=str(error)) from error
    except KubeError as error:
        raise web.HTTPServiceUnavailable(text=str(error)) from error
    return web.Response(status=201)


async def stop_board(request: web.Request) -> web.Response:
    await request.app[BOARD].stop()
    return web.Response(status=204)
