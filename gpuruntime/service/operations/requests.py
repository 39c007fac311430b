"""The write requests of the API, normalised: what an Operation keeps while somebody works on it.

They are wire types, so that they can be stored. What is left out of one is its default; so two texts that mean the same
have one hash.
"""

from attrs import evolve, field, frozen

from gpuruntime.api.gpuunit import GPUUnitSpec, UnitAccess
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, Namespaces
from gpuruntime.api.placement import PullSecret
from gpuruntime.api.security_profile import BASELINE
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import EMPTY, FrozenDict, Struct, is_dns_subdomain
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.objects.spec_checks import label_problems, unit_problems
from gpuruntime.service.stock.names import LARGEST_BATCH

__all__ = ["CreateUnit", "DeleteUnit", "Envelope", "ReturnedStock", "SeedStock", "check_create", "check_seed"]


@frozen
class Envelope(Struct):
    """What capacity is made of: the part of a unit's spec that never changes."""

    spec_name: str
    cpu: int | str | None = None
    memory: int | str | None = None
    gpu: int = 0
    gpu_type: str | None = None

    def spec(self) -> GPUUnitSpec:
        """The spec of a unit with this envelope and nothing in it."""
        return GPUUnitSpec(self.spec_name, cpu=self.cpu, memory=self.memory, gpu=self.gpu, gpu_type=self.gpu_type)


@frozen
class SeedStock(Struct):
    """Make so many stock units of one envelope."""

    envelope: Envelope
    replicas: int
    namespace: str = STOCK_NAMESPACE


@frozen
class CreateUnit(Struct):
    """Make an active unit: on the capacity of a ready stock unit of the spec, or cold, with an envelope of its own.

    `envelope` is for a cold start only; otherwise the stock unit has it. `stock_name` is the one stock unit to take, ""
    for the oldest of the spec.
    """

    name: str
    spec_name: str
    image: str
    namespace: str = INSTANCE_NAMESPACE
    stock_namespace: str = STOCK_NAMESPACE
    stock_name: str = ""
    template: UnitTemplate = field(default=UnitTemplate())
    access: UnitAccess = field(default=UnitAccess())
    image_pull_secrets: tuple[PullSecret, ...] = ()
    security_profile: str = BASELINE
    labels: FrozenDict[str, str] = EMPTY
    cold_start: bool = False
    envelope: Envelope | None = None


@frozen
class ReturnedStock(Struct):
    """The stock unit that is made again when an active unit goes: its name, its spec as far as it is known, and the
    annotations that say which request made it.
    """

    name: str
    namespace: str
    uid: str
    spec: GPUUnitSpec
    annotations: FrozenDict[str, str] = EMPTY


@frozen
class DeleteUnit(Struct):
    """Delete an active unit, and give back the stock that it came from.

    The caller says name and namespace. The UID, and what is to be given back, are noted when the Operation is made:
    once the unit is gone, nobody else knows them.
    """

    name: str
    namespace: str = INSTANCE_NAMESPACE
    uid: str = ""
    returned: ReturnedStock | None = None


def check_seed(request: SeedStock, namespaces: Namespaces) -> None:
    """Pass if stock can be seeded by this request.

    Raises:
        InvalidRequestError: it cannot, by nobody and never.
    """
    problems = []
    if not 1 <= request.replicas <= LARGEST_BATCH:
        problems.append(f"replicas: expected 1 to {LARGEST_BATCH}, got {request.replicas}")
    if not namespaces.is_stock(request.namespace):
        problems.append(f"namespace: expected a stock namespace ({_listed(namespaces)}), got {request.namespace!r}")
    _refuse(problems + unit_problems(request.envelope.spec()))


def check_create(request: CreateUnit, namespaces: Namespaces) -> None:
    """Pass if a unit can be created by this request.

    Raises:
        InvalidRequestError: it cannot, by nobody and never.
    """
    problems = []
    if not is_dns_subdomain(request.name):
        problems.append(f"name: expected lower-case letters, digits, '-' and '.', got {request.name!r}")
    if namespaces.is_stock(request.namespace):
        problems.append(f"namespace: expected one for active units, got the stock namespace {request.namespace!r}")
    elif request.namespace not in namespaces.instance:
        # Nobody would look after it, and its stock would be lost.
        listed = ", ".join(sorted(namespaces.instance))
        problems.append(f"namespace: expected one for active units ({listed}), got {request.namespace!r}")
    if not namespaces.is_stock(request.stock_namespace):
        problems.append(
            f"stockNamespace: expected a stock namespace ({_listed(namespaces)}), got {request.stock_namespace!r}"
        )
    if request.cold_start and request.envelope is None:
        problems.append("envelope: expected one with coldStart, got none")
    if not request.cold_start and request.envelope is not None:
        problems.append("envelope: expected none without coldStart, the stock unit has it")
    envelope = request.envelope or Envelope(request.spec_name)
    problems += unit_problems(
        evolve(
            envelope.spec(),
            image=request.image,
            template=request.template,
            access=request.access,
            image_pull_secrets=request.image_pull_secrets,
            security_profile=request.security_profile,
        )
    )
    problems += label_problems(request.labels)
    _refuse(problems)


def _refuse(problems: list[str]) -> None:
    if problems:
        raise InvalidRequestError(tuple(problems))


def _listed(namespaces: Namespaces) -> str:
    return ", ".join(sorted(namespaces.stock))
