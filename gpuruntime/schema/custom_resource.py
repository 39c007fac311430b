"""The CustomResourceDefinition of a kind: names, versions, schemas, columns, subresources."""

from typing import Any, Final

import attrs
from attrs import NOTHING

from gpuruntime.meta import Column, Definition, Scale, TypedObject
from gpuruntime.meta.structs import default_of
from gpuruntime.schema.failures import DefinitionError
from gpuruntime.schema.structural import schema_of

__all__ = ["definition"]

_INT32_MAXIMUM: Final = 2**31 - 1


def definition(*versions: type[TypedObject]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind as plain JSON, from one type per served version.

    Names, short names and categories are those of the storage version. The conversion strategy is None: the server
    changes only `apiVersion`, so the versions must agree on the meaning of their fields.

    Guarantees:
        The output is deterministic.

    Raises:
        DefinitionError: a type has no `DEFINITION` or no schema, the types are not versions of one kind, or not exactly
            one of them is the storage version.
    """
    declared = [(version, _declared(version)) for version in versions]
    stored = [(version, declaration) for version, declaration in declared if declaration.storage]
    if len(stored) != 1:
        found = ", ".join(version.__qualname__ for version, _ in stored) or "none"
        raise DefinitionError("definition", f"storage versions: {found}; expected exactly one type with storage=True")
    kind, chosen = stored[0][0].KIND, stored[0][1]
    for version in versions:
        if attrs.evolve(version.KIND, version=kind.version) != kind:
            raise DefinitionError(version.__qualname__, f"is {version.KIND}, expected a version of {kind}, same scope")
    if len({version.KIND.version for version in versions}) < len(versions):
        raise DefinitionError(str(kind), "two types have the same version; expected one type per version")
    names = {
        "kind": kind.kind,
        "listKind": chosen.list_kind or f"{kind.kind}List",
        "plural": kind.plural,
        "singular": chosen.singular or kind.kind.lower(),
        **_filled(shortNames=list(chosen.short_names), categories=list(chosen.categories)),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(version, declaration) for version, declaration in declared],
            **({"conversion": {"strategy": "None"}} if len(versions) > 1 else {}),
        },
    }


def _declared(version: type[TypedObject]) -> Definition:
    declaration = version.__dict__.get("DEFINITION")
    if not isinstance(declaration, Definition):
        raise DefinitionError(version.__qualname__, "has no DEFINITION; add one: `DEFINITION: ClassVar = Definition()`")
    if not version.KIND.group:
        raise DefinitionError(version.__qualname__, "is in the core group; expected a group of its own")
    return declaration


def _version(version: type[TypedObject], declaration: Definition) -> dict[str, Any]:
    schema = schema_of(version)
    return {
        "name": version.KIND.version,
        "served": declaration.served,
        "storage": declaration.storage,
        **({"deprecated": True, "deprecationWarning": declaration.deprecation} if declaration.deprecation else {}),
        "schema": {"openAPIV3Schema": schema},
        **_filled(
            subresources=_subresources(version, schema, declaration.scale),
            additionalPrinterColumns=[_column(column) for column in declaration.columns],
        ),
    }


def _subresources(version: type[TypedObject], schema: dict[str, Any], scale: Scale | None) -> dict[str, Any]:
    subresources: dict[str, Any] = {}
    for attribute in attrs.fields(version):
        if attribute.name == "status":
            if default_of(attribute) is NOTHING:
                raise DefinitionError(
                    f"{version.__qualname__}.status",
                    "is required, but objects are created without a status; give it a default",
                )
            subresources["status"] = {}
    if scale is not None:
        _require_replicas(version, schema, scale.spec_replicas)
        _require_replicas(version, schema, scale.status_replicas)
        subresources["scale"] = {
            "specReplicasPath": scale.spec_replicas,
            "statusReplicasPath": scale.status_replicas,
            **_filled(labelSelectorPath=scale.label_selector),
        }
    return subresources


def _require_replicas(version: type[TypedObject], schema: dict[str, Any], path: str) -> None:
    """Check the range of a field of the scale subresource: the server accepts nothing else."""
    for name in path.removeprefix(".").split("."):
        schema = schema.get("properties", {}).get(name, {})
    if schema.get("minimum", -1) < 0 or schema.get("maximum", _INT32_MAXIMUM + 1) > _INT32_MAXIMUM:
        raise DefinitionError(
            f"{version.__qualname__}{path}", f"is scaled; expected an int with a Range inside 0..{_INT32_MAXIMUM}"
        )


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.json_path,
        **_filled(priority=column.priority, description=column.description, format=column.format),
    }


def _filled(**entries: Any) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if value}
