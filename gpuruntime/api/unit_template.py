"""What runs inside a unit: command, environment, ports, readiness."""

from typing import Annotated, ClassVar, Final

from attrs import field, frozen

from gpuruntime.api.readiness import Argument, ReadinessProbe
from gpuruntime.meta import Cel, Items, Length, MapOf, Pattern, Range, Struct, wire

__all__ = ["RESERVED_ENV", "EnvSource", "KeyReference", "UnitEnv", "UnitPort", "UnitTemplate"]

RESERVED_ENV: Final = ("SPEC_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT")
"""Variables that every unit is given; a spec may use them, but not set them."""


@frozen
class KeyReference(Struct):
    """One key of a Secret or ConfigMap in the namespace of the unit."""

    name: Annotated[str, Length(minimum=1, maximum=253)]
    """Name of the Secret or ConfigMap."""
    key: Annotated[str, Length(minimum=1, maximum=253), Pattern(r"^[-._a-zA-Z0-9]+$")]
    """Key in its data."""
    optional: bool | None = None
    """Whether the unit starts without the variable if the object or the key is missing. Otherwise it waits."""


@frozen
class EnvSource(Struct):
    """Where the value of an environment variable comes from: a Secret or a ConfigMap, exactly one of them."""

    RULES: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            message="expected exactly one of secretKeyRef and configMapKeyRef",
        ),
    )

    secret_key_ref: KeyReference | None = None
    """A key of a Secret. This is where passwords and tokens belong."""
    config_map_key_ref: KeyReference | None = None
    """A key of a ConfigMap."""


@frozen
class UnitEnv(Struct):
    """One environment variable: a name, and a value or the place where the value is kept."""

    RULES: ClassVar[tuple[Cel, ...]] = (
        Cel("!has(self.value) || !has(self.valueFrom)", message="expected value or valueFrom, got both"),
    )

    name: Annotated[
        str,
        Length(minimum=1, maximum=253),
        Pattern(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"),
        Cel(
            f"!(self in {list(RESERVED_ENV)})",
            message=f"{', '.join(RESERVED_ENV)} are set by the operator; expected another name",
        ),
    ]
    """Name of the variable, such as MODEL_ID. SPEC_NAME, UNIT_NAME, GPU_COUNT and MEMORY_LIMIT are taken: every unit is
    given them."""
    value: Argument | None = field(default=None, metadata=wire(sensitive=True))
    """The value, of any characters but NUL. $(NAME) stands for the value of a variable before this one, $$ for a dollar
    sign. Everybody who can read the unit in the cluster can read it: put secrets into a Secret, and refer to it with
    valueFrom."""
    value_from: EnvSource | None = None
    """Takes the value from a Secret or a ConfigMap instead. A change there reaches the unit when it starts again."""


@frozen
class UnitPort(Struct):
    """A port on which the unit listens."""

    name: Annotated[
        str,
        Length(minimum=1, maximum=15),
        Pattern(r"^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$"),
    ]
    """Name of the port, such as http: at most 15 lower-case letters, digits and single dashes, at least one letter."""
    port: Annotated[int, Range(minimum=1, maximum=65535)]
    """Number of the port, the same in the container and in the Service."""
    protocol: Annotated[str, Pattern("^(TCP|UDP|SCTP)$"), Length(maximum=4)] = "TCP"
    """TCP, UDP or SCTP."""


@frozen
class UnitTemplate(Struct):
    """What runs inside the unit: command, arguments, environment, ports, readiness. All of it can be changed; a change
    restarts the unit.
    """

    RULES: ClassVar[tuple[Cel, ...]] = tuple(
        Cel(
            f"!has(self.readinessProbe) || !has(self.readinessProbe.{handler})"
            f" || type(self.readinessProbe.{handler}.port) == int"
            f" || (has(self.ports) && self.ports.exists(p, p.name == self.readinessProbe.{handler}.port))",
            message=f"expected the number of a port, or the name of one in ports, as readinessProbe.{handler}.port",
        )
        for handler in ("httpGet", "tcpSocket")
    )

    command: Annotated[tuple[Argument, ...], Items(maximum=256)] = field(default=(), metadata=wire(sensitive=True))
    """The program and its first arguments, in place of the image's entry point. If neither command nor args is given,
    the unit sleeps until it is deleted, whatever its image would run; for that the image needs a shell."""
    args: Annotated[tuple[Argument, ...], Items(maximum=256)] = field(default=(), metadata=wire(sensitive=True))
    """Arguments of the command, or of the image's entry point if there is no command."""
    envs: Annotated[tuple[UnitEnv, ...], MapOf("name"), Items(maximum=256)] = ()
    """Environment variables, in order: a later one may refer to an earlier one. The unit has SPEC_NAME, UNIT_NAME,
    GPU_COUNT and MEMORY_LIMIT besides."""
    ports: Annotated[
        tuple[UnitPort, ...],
        MapOf("name"),
        Items(maximum=32),
        Cel(
            "self.all(p, self.exists_one(q, q.port == p.port && q.protocol == p.protocol))",
            message="expected every number once per protocol",
        ),
    ] = ()
    """Ports that others reach. A unit with ports has a Service of type ClusterIP with exactly these; without ports it
    has none. Stock units never have one."""
    readiness_probe: ReadinessProbe | None = None
    """How to tell that the unit can serve. Without it the unit is ready as soon as its container runs."""
