"""The HTTP endpoints of a manager: health, readiness, metrics and debug pages.

The responses are those of Kubernetes components. `/livez`, its old name `/healthz`, and `/readyz` return 200 and "ok",
or 500 and the failed checks. `?verbose` lists all checks with reasons, `?exclude=name` skips a check and can be
repeated, `/readyz/name` runs a single check, and `Accept: application/json` selects JSON.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson
from aiohttp import web
from attrs import frozen
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gpuruntime.control.health.checks import HealthChecks, UnknownCheckError, Verdict

__all__ = ["build_application"]

_JSON: Final = "application/json"


def build_application(
    *, live: HealthChecks, ready: HealthChecks, registry: CollectorRegistry, debug: web.Application | None = None
) -> web.Application:
    """The application of a manager: `live` at /livez and /healthz, `ready` at /readyz, /metrics, `debug` at /debug/.

    Guarantees:
        The reason of a failed check is shown only on the page of that check and with `?verbose`.

    Caveats:
        Only the debug pages are protected: do not expose it outside the cluster. Collectors run in the loop, as those
        of this package require.
    """
    application = web.Application()
    for name, checks in (("livez", live), ("healthz", live), ("readyz", ready)):
        probe = _Probe(name, checks)
        application.router.add_get(f"/{name}", probe.all)
        application.router.add_get(f"/{name}/", probe.all)
        application.router.add_get(f"/{name}/{{check}}", probe.one)
    application.router.add_get("/metrics", _Metrics(registry).scrape)
    if debug is not None:
        application.add_subapp("/debug/", debug)
    return application


@frozen
class _Probe:
    """One probe endpoint; `name` is its path."""

    name: str
    checks: HealthChecks

    async def all(self, request: web.Request) -> web.Response:
        verbose = "verbose" in request.query
        exclude = request.query.getall("exclude", [])
        verdicts = await self.checks.run(exclude)
        failed = any(verdict.status == "failed" for verdict in verdicts)
        unknown = sorted(set(exclude) - {verdict.name for verdict in verdicts})
        if _wants_json(request):
            return _json(failed, _summary(failed, verdicts, unknown, verbose=verbose))
        if not failed and not verbose:
            return _text(200, "ok")
        lines = [_line(verdict, verbose=verbose) for verdict in verdicts]
        if unknown:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(map(repr, unknown))}")
        lines.append(f"{self.name} check {'failed' if failed else 'passed'}")
        return _text(500 if failed else 200, "\n".join(lines) + "\n")

    async def one(self, request: web.Request) -> web.Response:
        try:
            verdict = await self.checks.run_one(request.match_info["check"])
        except UnknownCheckError as error:
            return _text(404, f"{error.args[0]}\n")
        failed = verdict.status == "failed"
        if _wants_json(request):
            return _json(failed, _as_json(verdict, verbose=True))
        return _text(500, f"{verdict.reason}\n") if failed else _text(200, "ok")


@frozen
class _Metrics:
    registry: CollectorRegistry

    async def scrape(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(",".join(request.headers.getall("Accept", [])))
        snapshot = _Snapshot(tuple(self.registry.collect()))
        # Encoding takes several times as long as collecting and does not need the loop.
        body = await asyncio.to_thread(encode, snapshot)
        return web.Response(body=body, headers={"Content-Type": content_type})


@frozen
class _Snapshot(Collector):
    """The metrics of one scrape."""

    families: tuple[Metric, ...]

    def collect(self) -> tuple[Metric, ...]:
        return self.families


def _line(verdict: Verdict, *, verbose: bool) -> str:
    if verdict.status == "failed":
        return f"[-]{verdict.name} failed: {verdict.reason if verbose else 'reason withheld'}"
    return f"[+]{verdict.name} excluded: ok" if verdict.status == "excluded" else f"[+]{verdict.name} ok"


def _summary(failed: bool, verdicts: Sequence[Verdict], unknown: list[str], *, verbose: bool) -> dict[str, Any]:
    return {
        "status": "failed" if failed else "ok",
        "checks": [_as_json(verdict, verbose=verbose) for verdict in verdicts],
        "unknown_excludes": unknown,
    }


def _as_json(verdict: Verdict, *, verbose: bool) -> dict[str, str]:
    shown = {"name": verdict.name, "status": verdict.status}
    return {**shown, "reason": verdict.reason} if verbose and verdict.reason else shown


def _wants_json(request: web.Request) -> bool:
    """Whether the client names JSON explicitly; `*/*` means text."""
    ranges = ",".join(request.headers.getall("Accept", [])).split(",")
    return _JSON in (media.partition(";")[0].strip().lower() for media in ranges)


def _json(failed: bool, document: dict[str, Any]) -> web.Response:
    return web.Response(status=500 if failed else 200, body=orjson.dumps(document), content_type=_JSON)


def _text(status: int, text: str) -> web.Response:
    # The text may repeat parts of the request, so no browser may interpret it as HTML.
    return web.Response(status=status, text=text, headers={"X-Content-Type-Options": "nosniff"})
