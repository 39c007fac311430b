"""Debug pages: the state of queues, informers and tasks, and actions on single keys.

    GET  /debug/                                    list of pages
    GET  /debug/queues                              the first keys of every controller, and the total
    GET  /debug/queues?key=namespace/name           a single key, in every controller
    GET  /debug/informers                           every informer
    GET  /debug/tasks                               every task of the loop, with its stack
    POST /debug/queues/{controller}/requeue         {"key": "namespace/name"}: reconcile the key now
    POST /debug/queues/{controller}/pause           hold the key back
    POST /debug/queues/{controller}/resume          end the pause
    POST /debug/queues/{controller}/forget          reset its failures; a requested run stays

All responses are JSON, errors included. Send a body with `curl --json '{"key": "namespace/name"}' ...`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable
from http import HTTPStatus
from typing import Any, Final

import orjson
from aiohttp import web
from attrs import asdict, frozen

from gpuruntime.control.controllers.reconcile import Cause
from gpuruntime.control.debug.task_stacks import view_tasks
from gpuruntime.control.debug.views import InspectedController, informer_page, key_page, queue_page
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.queueing.key_sample import KeySample
from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.control.serving.loopback import loopback_only

__all__ = ["Authorize", "debug_application"]

_JSON: Final = "application/json"
_PAGES: Final = ("queues", "informers", "tasks")
_KEYS_SHOWN: Final = 500

Authorize = Callable[[web.Request], Awaitable[bool]]


def debug_application(
    controllers: Collection[InspectedController], cache: Cache, *, authorize: Authorize = loopback_only
) -> web.Application:
    """The debug pages, to be mounted at /debug/.

    Guarantees:
        Without authorization every request gets 403 and has no effect. Stacks do not contain values of variables. A
        POST needs the JSON content type, which a cross-origin web page cannot send.

    Caveats:
        `controllers` is read at each request, so it may grow. The queue page yields to the loop while it reads the
        keys: it is not a consistent snapshot.
    """
    pages = _Pages(controllers, cache)

    @web.middleware
    async def guard(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
        if not await authorize(request):
            return _error(HTTPStatus.FORBIDDEN, "this client may not use the debug pages")
        return await handler(request)

    application = web.Application(middlewares=[guard])
    application.router.add_get("/", pages.index)
    application.router.add_get("/queues", pages.queues)
    application.router.add_get("/informers", pages.informers)
    application.router.add_get("/tasks", pages.tasks)
    application.router.add_post("/queues/{controller}/{action}", pages.act)
    return application


@frozen
class _Pages:
    controllers: Collection[InspectedController]
    cache: Cache

    async def index(self, _request: web.Request) -> web.Response:
        return await _page(lambda: {"pages": _PAGES})

    async def queues(self, request: web.Request) -> web.Response:
        text = request.query.get("key")
        if text is None:
            taken = [(controller, await controller.queue.sample(_KEYS_SHOWN)) for controller in (*self.controllers,)]
        else:
            try:
                taken = [(controller, _search(controller, text)) for controller in self.controllers]
            except ValueError as error:
                return _error(HTTPStatus.BAD_REQUEST, str(error))
        return await _page(lambda: {"queues": [queue_page(controller, keys) for controller, keys in taken]})

    async def informers(self, _request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        taken = [informer_page(informer, now) for informer in self.cache.informers]
        return await _page(lambda: {"informers": taken})

    async def tasks(self, _request: web.Request) -> web.Response:
        taken = view_tasks(asyncio.get_running_loop())
        return await _page(lambda: {"tasks": [asdict(view) for view in taken]})

    async def act(self, request: web.Request) -> web.Response:
        name, action = request.match_info["controller"], request.match_info["action"]
        controller = next((known for known in self.controllers if known.name == name), None)
        if controller is None:
            names = ", ".join(known.name for known in self.controllers) or "none"
            return _error(HTTPStatus.NOT_FOUND, f"no controller {name!r}: expected one of {names}")
        act = _ACTIONS.get(action)
        if act is None:
            return _error(HTTPStatus.NOT_FOUND, f"no action {action!r}: expected one of {', '.join(_ACTIONS)}")
        try:
            key = controller.parse_key(await _key_text(request))
        except ValueError as error:
            return _error(HTTPStatus.BAD_REQUEST, str(error))
        act(controller.queue, key)
        view = controller.queue.view(key)
        now = None if view is None else key_page(view)
        return await _page(lambda: {"controller": name, "action": action, "key": str(key), "now": now})


def _search(controller: InspectedController, text: str) -> KeySample[Any]:
    """The key with this text, if it is in the controller's queue.

    Raises:
        ValueError: the text is not a key of this controller.
    """
    view = controller.queue.view(controller.parse_key(text))
    return KeySample(0, ()) if view is None else KeySample(1, (view,))


def _requeue(queue: WorkQueue[Any], key: Hashable) -> None:
    queue.add(key, cause=Cause("debug page", "requeue", at=asyncio.get_running_loop().time()))


_ACTIONS: Final[dict[str, Callable[[WorkQueue[Any], Any], None]]] = {
    "requeue": _requeue,
    "pause": WorkQueue.pause,
    "resume": WorkQueue.resume,
    "forget": WorkQueue.forget,
}


async def _key_text(request: web.Request) -> str:
    """The key in the request body.

    Raises:
        ValueError: the body is invalid.
    """
    if request.content_type != _JSON:
        raise ValueError(f"expected content type {_JSON}, got {request.content_type}")
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        raise ValueError(f'expected a JSON object like {{"key": "namespace/name"}}: {error}') from error
    if not isinstance(body, dict) or body.keys() != {"key"} or not isinstance(body["key"], str):
        raise ValueError('expected {"key": "namespace/name"}: an object with a single string field')
    return body["key"]


async def _page(build: Callable[[], Any]) -> web.Response:
    # There may be thousands of tasks: encode in a thread to keep the loop free.
    body = await asyncio.to_thread(lambda: orjson.dumps(build(), option=orjson.OPT_INDENT_2))
    return web.Response(body=body, content_type=_JSON)


def _error(status: HTTPStatus, message: str) -> web.Response:
    return web.Response(status=status, body=orjson.dumps({"error": message}), content_type=_JSON)
