"""The template of a unit: command, environment, ports and readiness probe of its container."""

from typing import Annotated, ClassVar, Final

from attrs import field, frozen

from gpuruntime.api.readiness import Argument, ReadinessProbe
from gpuruntime.meta import OBJECT_NAME, Cel, Check, Items, Length, MapOf, Pattern, Range, Rule, Struct, wire

__all__ = ["RESERVED_ENV", "EnvSource", "KeyReference", "UnitEnv", "UnitPort", "UnitTemplate"]

RESERVED_ENV: Final = ("SPEC_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT")
"""Variables that the operator sets in every unit; a spec may refer to them, but not set them."""


@frozen
class KeyReference(Struct):
    """A reference to one key of a Secret or ConfigMap in the unit's namespace."""

    name: Annotated[str, Length(minimum=1, maximum=253), OBJECT_NAME]
    """Name of the Secret or ConfigMap."""
    key: Annotated[
        str,
        Length(minimum=1, maximum=253),
        Pattern(r"^[-._a-zA-Z0-9]+$", description="a key of letters, digits, '-', '_' and '.'"),
        Check(
            lambda key: key != "." and not key.startswith(".."),
            expected="a key that is not '.' and does not begin with '..'",
        ),
    ]
    """Key in its data."""
    optional: bool | None = None
    """Whether the unit starts without the variable if the object or the key does not exist. Otherwise it waits."""


@frozen
class EnvSource(Struct):
    """The source of an environment variable's value: exactly one of secretKeyRef and configMapKeyRef."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            message="exactly one of secretKeyRef and configMapKeyRef must be set",
            check=lambda source: (source.secret_key_ref is None) != (source.config_map_key_ref is None),
            expected="exactly one of secretKeyRef and configMapKeyRef",
        ),
    )

    secret_key_ref: KeyReference | None = None
    """Selects a key of a Secret. Use it for passwords and tokens."""
    config_map_key_ref: KeyReference | None = None
    """Selects a key of a ConfigMap."""


@frozen
class UnitEnv(Struct):
    """An environment variable: a name, and a value or a reference to one."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "!has(self.value) || !has(self.valueFrom)",
            message="only one of value and valueFrom may be set",
            check=lambda env: env.value is None or env.value_from is None,
            expected="value or valueFrom",
        ),
    )

    name: Annotated[
        str,
        Length(minimum=1, maximum=253),
        Pattern(
            r"^[-._a-zA-Z][-._a-zA-Z0-9]*$",
            description="a name of letters, digits, '-', '_' and '.' that does not begin with a digit",
        ),
        Cel(
            f"!(self in {list(RESERVED_ENV)})",
            message=f"{', '.join(RESERVED_ENV)} are set by the operator; use another name",
            check=lambda name: name not in RESERVED_ENV,
            expected="a name that the operator does not reserve",
        ),
        Check(
            lambda name: name != "." and not name.startswith(".."),
            expected="a name that is not '.' and does not begin with '..'",
        ),
    ]
    """Name of the variable, such as MODEL_ID. SPEC_NAME, UNIT_NAME, GPU_COUNT and MEMORY_LIMIT are reserved: the
    operator sets them in every unit."""
    value: Argument | None = field(default=None, metadata=wire(sensitive=True))
    """Value of the variable, without NUL characters. $(NAME) is replaced by the value of an earlier variable, $$ by a
    dollar sign. It is visible to everyone who can read the unit: put secrets into a Secret, and refer to it with
    valueFrom."""
    value_from: EnvSource | None = None
    """Source of the value, a Secret or a ConfigMap. A change there takes effect when the unit restarts."""


@frozen
class UnitPort(Struct):
    """A port of the unit."""

    name: Annotated[
        str,
        Length(minimum=1, maximum=15),
        Pattern(
            r"^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$",
            description="a name of lower-case letters, digits and single dashes with at least one letter",
        ),
    ]
    """Name of the port, such as http: an IANA_SVC_NAME of at most 15 lower-case letters, digits and single dashes, with
    at least one letter."""
    port: Annotated[int, Range(minimum=1, maximum=65535)]
    """Port number, both in the container and in the Service."""
    protocol: Annotated[str, Pattern("^(TCP|UDP|SCTP)$"), Length(maximum=4)] = "TCP"
    """Protocol of the port: TCP, UDP or SCTP."""


def _probe_rule(handler: str, attribute: str) -> Cel:
    """The rule that the port of a probe is a number or the name of a port of the template."""

    def check(template: "UnitTemplate") -> bool:
        probed = getattr(template.readiness_probe, attribute, None)
        return probed is None or isinstance(probed.port, int) or probed.port in template.port_names()

    return Cel(
        f"!has(self.readinessProbe) || !has(self.readinessProbe.{handler})"
        f" || type(self.readinessProbe.{handler}.port) == int"
        f" || (has(self.ports) && self.ports.exists(p, p.name == self.readinessProbe.{handler}.port))",
        message=f"readinessProbe.{handler}.port must be a number or the name of a port in ports",
        field_path=f".readinessProbe.{handler}.port",
        check=check,
        expected=lambda template: (
            f"a number, or the name of a port of the template ({', '.join(template.port_names()) or 'none'})"
        ),
    )


def _repeated(ports: "tuple[UnitPort, ...]") -> str:
    """The ports that are listed more than once, such as "80/TCP"."""
    numbers = [f"{port.port}/{port.protocol}" for port in ports]
    return ", ".join(sorted({number for number in numbers if numbers.count(number) > 1}))


@frozen
class UnitTemplate(Struct):
    """Template of the unit's container: command, arguments, environment, ports and readiness. It is mutable; a change
    restarts the unit.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (_probe_rule("httpGet", "http_get"), _probe_rule("tcpSocket", "tcp_socket"))

    command: Annotated[tuple[Argument, ...], Items(maximum=256)] = field(default=(), metadata=wire(sensitive=True))
    """Entrypoint array, which overrides the image's ENTRYPOINT. If neither command nor args is set, the unit sleeps
    until it is deleted, whatever its image would run; this requires a shell in the image."""
    args: Annotated[tuple[Argument, ...], Items(maximum=256)] = field(default=(), metadata=wire(sensitive=True))
    """Arguments of the command, or of the image's ENTRYPOINT if command is not set."""
    envs: Annotated[tuple[UnitEnv, ...], MapOf("name"), Items(maximum=256)] = ()
    """Environment variables, in order: a later one may refer to earlier ones. SPEC_NAME, UNIT_NAME, GPU_COUNT and
    MEMORY_LIMIT are set in addition."""
    ports: Annotated[
        tuple[UnitPort, ...],
        MapOf("name"),
        Items(maximum=32),
        Cel(
            "self.all(p, self.exists_one(q, q.port == p.port && q.protocol == p.protocol))",
            message="every port number must be unique per protocol",
            check=lambda ports: not _repeated(ports),
            expected=lambda ports: f"each port number only once per protocol, not {_repeated(ports)} again",
        ),
    ] = ()
    """Ports that the unit exposes. An active unit with ports has a Service of type ClusterIP with exactly these ports.
    Units without ports and stock units have no Service."""
    readiness_probe: ReadinessProbe | None = None
    """Readiness probe of the container. Without one, the unit is ready when its container has run for
    minReadySeconds."""

    def port_names(self, protocol: str | None = None) -> tuple[str, ...]:
        """The names of all ports, or of those of one protocol."""
        return tuple(port.name for port in self.ports if protocol in (None, port.protocol))
