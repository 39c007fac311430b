"""Rendered children of units, cached by generation."""

from typing import Final

from attrs import define, evolve, field, frozen

from gpuruntime.aio import LRU
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import FUNCTION_REVISION, RENDER_ON, RENDERED_DIGEST, RENDERED_FOR, RENDERED_TEMPLATE
from gpuruntime.api.reasons import SERVERLESS_NOT_CONFIGURED
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.desired.units.pinning import pinned
from gpuruntime.desired.units.service import access_url, unit_service
from gpuruntime.desired.units.worker import function_of, is_worker, serverless_of
from gpuruntime.desired.validation import spec_violations
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.meta import find_condition
from gpuruntime.reconcilers.gpuunit.status import SyncFailure
from gpuruntime.schema import Violation

__all__ = ["UnitRendering", "UnitRenderings", "pins_of"]

_KEPT: Final = 1024
_FORBIDDEN: Final = "violates PodSecurity"
_NOT_CONFIGURED: Final = (
    "spec.serverless makes the unit a worker, and the operator is not configured for workers. Set"
    " serverless.sidecarImage and serverless.activatorURL in the config of the controller manager."
)


@define
class UnitRendering:
    """The desired children of one generation of a unit. Without violations and obstacle there is a Deployment; the
    Service and the URL depend on the spec. The obstacle is why a worker cannot be rendered yet.
    """

    violations: tuple[Violation, ...]
    obstacle: SyncFailure | None = None
    service: Service | None = None
    url: str | None = None
    _fresh: Deployment | None = None
    _pinned: Deployment | None = None

    def deployment(self, own: Deployment | None, *, priority_class: str = "") -> Deployment:
        """The Deployment to write, with the pod template of the unit's own one if that still holds.

        A new pod template has this PriorityClass instead of that of the role, if one is given.

        A template that Pod Security refuses does not hold: nothing runs that a new rendering could restart.

        While the pinned template stays the same it is the identical object, so that the writer compares by identity.

        Raises:
            ValueError: the unit violates a rule, or there is an obstacle.
        """
        if self._fresh is None:
            why = "; ".join(map(str, self.violations)) or self.obstacle
            raise ValueError(f"expected a unit that can be rendered, got {why}")
        if own is not None and _is_forbidden(own):
            own = None
        if self._pinned is None or own is None or pins_of(own) != pins_of(self._pinned):
            fresh = _with_priority_class(self._fresh, priority_class) if priority_class else self._fresh
            self._pinned = pinned(own, fresh)
        return self._pinned


@frozen
class UnitRenderings:
    """Renders units, with an LRU cache of renderings.

    A unit is reconciled several times while its pod starts, and its spec is the same each time.
    """

    rendering: Rendering
    _known: LRU[str, tuple[tuple[int, str, str, str], UnitRendering]] = field(factory=lambda: LRU(_KEPT))

    def of(self, unit: GPUUnit) -> UnitRendering:
        """The rendered children of a unit."""
        meta = unit.metadata
        # The generation counts the states of the spec; of the metadata, this is all that is rendered and can change.
        state = (
            meta.generation or 0,
            meta.annotations.get(RENDER_ON, ""),
            function_of(unit),
            meta.annotations.get(FUNCTION_REVISION, ""),
        )
        known = self._known.get(meta.uid) if meta.uid and meta.generation else None
        if known is not None and known[0] == state:
            return known[1]
        rendered = _render(unit, self.rendering)
        if meta.uid and meta.generation:
            self._known.put(meta.uid, (state, rendered))
        return rendered


def _render(unit: GPUUnit, rendering: Rendering) -> UnitRendering:
    found = spec_violations(unit.spec)
    if found:
        return UnitRendering(found)
    obstacle = _obstacle(unit, rendering)
    if obstacle is not None:
        return UnitRendering((), obstacle)
    return UnitRendering(
        (), None, unit_service(unit, rendering), access_url(unit, rendering), unit_deployment(unit, rendering)
    )


def _obstacle(unit: GPUUnit, rendering: Rendering) -> SyncFailure | None:
    """Why a worker cannot be rendered yet."""
    serverless = serverless_of(unit.spec)
    if serverless is None or not is_worker(unit, rendering):
        return None
    if rendering.sidecar is None:
        return SyncFailure(_NOT_CONFIGURED, SERVERLESS_NOT_CONFIGURED)
    if not function_of(unit):
        return SyncFailure(f"Waiting to join the function with requestID {serverless.request_id}.")
    return None


def _with_priority_class(deployment: Deployment, name: str) -> Deployment:
    template = deployment.spec.template
    changed = evolve(template, spec=evolve(template.spec, priority_class_name=name))
    return evolve(deployment, spec=evolve(deployment.spec, template=changed))


def _is_forbidden(deployment: Deployment) -> bool:
    """Whether a Deployment has no pod because Pod Security admits none of its template."""
    failure = find_condition(deployment.status.conditions, "ReplicaFailure")
    refused = failure is not None and failure.status == "True" and _FORBIDDEN in (failure.message or "")
    return refused and not deployment.status.replicas


def pins_of(deployment: Deployment) -> tuple[str | None, ...]:
    """What a Deployment says about its pod template: two with the same pins have the same one, drift apart."""
    annotations = deployment.metadata.annotations
    return tuple(annotations.get(name) for name in (RENDERED_FOR, RENDERED_DIGEST, RENDERED_TEMPLATE))
