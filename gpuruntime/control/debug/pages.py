"""Debug pages: what queues, informers and tasks are at, and how to move a key along by hand.

    GET  /debug/                                    the pages there are
    GET  /debug/queues                              the first keys of every controller, and how many there are
    GET  /debug/queues?key=namespace/name           this key, wherever it is
    GET  /debug/informers                           every informer
    GET  /debug/tasks                               every task of the loop, with its stack
    POST /debug/queues/{controller}/requeue         {"key": "namespace/name"}: run the key now
    POST /debug/queues/{controller}/pause           hand it to no worker
    POST /debug/queues/{controller}/resume          end that
    POST /debug/queues/{controller}/forget          forget its failures; the run that it waits for stays

All is JSON, errors included; `curl --json '{"key": "namespace/name"}' ...` sends what is expected.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from attrs import asdict, frozen

from gpuruntime.control.controllers.reconcile import Cause
from gpuruntime.control.debug.task_stacks import view_tasks
from gpuruntime.control.debug.views import InspectedController, informer_page, key_page, queue_page
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.queueing.key_sample import KeySample
from gpuruntime.control.queueing.workqueue import WorkQueue

__all__ = ["Authorize", "debug_application", "loopback_only"]

_JSON: Final = "application/json"
_PAGES: Final = ("queues", "informers", "tasks")
_KEYS_SHOWN: Final = 500

Authorize = Callable[[web.Request], Awaitable[bool]]


async def loopback_only(request: web.Request) -> bool:
    """Lets in who comes over the loopback interface, and calls it by its own name.

    The latter keeps out web pages: a page can give a name of its own the address 127.0.0.1, and have a browser on this
    machine ask for it.

    Caveats:
        A proxy on this machine is let in, and with it whomever it speaks for.
    """
    try:
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
    except ValueError:
        return False
    # `remote` is the peer of the connection, whatever headers say.
    return _is_loopback(request.remote or "") and (host == "localhost" or _is_loopback(host))


def debug_application(
    controllers: Collection[InspectedController], cache: Cache, *, authorize: Authorize = loopback_only
) -> web.Application:
    """The debug pages, to be mounted at /debug/.

    Guarantees:
        Nothing is shown and nothing done unless `authorize` says so: 403. Stacks come without the values of variables.
        A POST needs the content type of JSON, which no web page of a stranger can send.

    Caveats:
        `controllers` is read at each request, so it may grow meanwhile. The page of queues looks at their keys part by
        part, so that others can run: what it shows is not of one moment.
    """
    pages = _Pages(controllers, cache)

    @web.middleware
    async def guard(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
        if not await authorize(request):
            return _refusal(HTTPStatus.FORBIDDEN, "the debug pages are not open to this client")
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
                return _refusal(HTTPStatus.BAD_REQUEST, str(error))
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
            return _refusal(HTTPStatus.NOT_FOUND, f"no controller {name!r}: there are {names}")
        act = _ACTIONS.get(action)
        if act is None:
            return _refusal(HTTPStatus.NOT_FOUND, f"no action {action!r}: there are {', '.join(_ACTIONS)}")
        try:
            key = controller.parse_key(await _key_text(request))
        except ValueError as error:
            return _refusal(HTTPStatus.BAD_REQUEST, str(error))
        act(controller.queue, key)
        view = controller.queue.view(key)
        now = None if view is None else key_page(view)
        return await _page(lambda: {"controller": name, "action": action, "key": str(key), "now": now})


def _search(controller: InspectedController, text: str) -> KeySample[Any]:
    """The key for which the text stands, if the controller's queue has it.

    Raises:
        ValueError: it stands for none.
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
    """What the body says.

    Raises:
        ValueError: not what it should.
    """
    if request.content_type != _JSON:
        raise ValueError(f"expected content type {_JSON}, got {request.content_type}")
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        raise ValueError(f'expected a JSON object like {{"key": "namespace/name"}}: {error}') from error
    if not isinstance(body, dict) or body.keys() != {"key"} or not isinstance(body["key"], str):
        raise ValueError('expected {"key": "namespace/name"}: an object with this one field, a string')
    return body["key"]


async def _page(build: Callable[[], Any]) -> web.Response:
    # There may be thousands of tasks: writing them down in a thread lets the loop go on meanwhile.
    body = await asyncio.to_thread(lambda: orjson.dumps(build(), option=orjson.OPT_INDENT_2))
    return web.Response(body=body, content_type=_JSON)


def _refusal(status: HTTPStatus, message: str) -> web.Response:
    return web.Response(status=status, body=orjson.dumps({"error": message}), content_type=_JSON)


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
