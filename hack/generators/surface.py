"""The public surface: the importable names with their signatures, as text for review.

It is read from the source and not from imported objects, so that it is the same on every version of Python.
"""

import argparse
import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["LISTING", "MODULES", "main", "surface"]

ROOT = Path(__file__).resolve().parents[2]
LISTING = ROOT / "docs" / "reference" / "surface.txt"
_BUILTIN = tuple(
    f"gpuruntime.kube.builtin.{path.stem}"
    for path in sorted((ROOT / "gpuruntime" / "kube" / "builtin").glob("[a-z]*.py"))
)
MODULES = (
    "gpuruntime.aio",
    "gpuruntime.control",
    "gpuruntime.control.leadership",
    "gpuruntime.control.metrics",
    "gpuruntime.control.serving",
    "gpuruntime.kube",
    *_BUILTIN,
    "gpuruntime.meta",
    "gpuruntime.schema",
    "gpuruntime.testing",
    "gpuruntime.testing.crashing",
    "gpuruntime.testing.faults",
    "gpuruntime.testing.images",
    "gpuruntime.testing.managers",
    "gpuruntime.testing.permissions",
    "gpuruntime.testing.plugin",
    "gpuruntime.testing.scripted",
    "gpuruntime.testing.virtual_time",
    "gpuruntime.testing.volumes.fake_volumes",
)
_LAW = """# What users may import. A change of a line is a change for users: see "Stability" in the documentation.
# Accept it with: ./hack/in-venv -m hack.generators.surface --accept
"""
_PROPERTIES = {"property", "cached_property"}


def main(argv: list[str]) -> int:
    """Print the listing, or write it with --accept."""
    parser = argparse.ArgumentParser(
        prog="./hack/in-venv -m hack.generators.surface", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--accept", action="store_true", help=f"write it to {LISTING.relative_to(ROOT)}")
    if parser.parse_args(argv).accept:
        LISTING.write_text(surface())
    else:
        print(surface(), end="")
    return 0


def surface() -> str:
    """The listing: each public module with its names, each class with its fields and methods."""
    lines = [_LAW]
    for module in MODULES:
        lines.append(module)
        for name in sorted(_exported(module)):
            lines += [f"    {line}" for line in _described(name, *_found(module, name))]
        lines.append("")
    return "\n".join(lines)


@functools.cache
def _tree(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


def _exported(module: str) -> list[str]:
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and _names(node) == ["__all__"]:
            return [str(name) for name in ast.literal_eval(node.value)]
    raise LookupError(f"{module} has no __all__")


def _found(module: str, name: str) -> list[ast.stmt]:
    """The statements that define a name, in the module or in the module that it is imported from."""
    found = [node for node in _tree(module).body if name in _names(node)]
    for node in _tree(module).body:
        if not found and isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _found(node.module, alias.name)
    if not found:
        raise LookupError(f"{module} exports {name}, which is defined nowhere")
    return found


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _described(name: str, *nodes: ast.stmt) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.ClassDef():
                bases = ", ".join(ast.unparse(base) for base in node.bases)
                yield f"class {name}({bases}){_keywords(node)}".replace("()", "")
                for member in node.body:
                    yield from (f"    {line}" for line in _member(member))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield _signature(node)
            case _:
                yield _text(node)


def _keywords(node: ast.ClassDef) -> str:
    """The note of a class whose fields are all keyword-only."""
    options = [option for call in node.decorator_list if isinstance(call, ast.Call) for option in call.keywords]
    return ", by keyword" if any(option.arg == "kw_only" for option in options) else ""


def _member(node: ast.stmt) -> Iterator[str]:
    if any(name.startswith("_") and name != "__init__" for name in _names(node)):
        return
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
            if "validator" in decorators:
                return
            if decorators & _PROPERTIES:
                yield f"{node.name}: {'' if node.returns is None else ast.unparse(node.returns)}"
            else:
                yield _signature(node)
                yield from _attributes(node)
        case ast.AnnAssign() | ast.Assign():
            yield _text(node)


def _attributes(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The public attributes that `__init__` sets."""
    for inner in node.body if node.name == "__init__" else ():
        target = inner.targets[0] if isinstance(inner, ast.Assign) else getattr(inner, "target", None)
        if isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
            kind = f": {ast.unparse(inner.annotation)}" if isinstance(inner, ast.AnnAssign) else ""
            yield f"self.{target.attr}{kind}"


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = "" if node.returns is None else f" -> {_text(node.returns)}"
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{prefix} {node.name}({_text(node.args)}){returns}"


def _text(node: ast.AST) -> str:
    # The quoting of f-strings differs between versions of Python, and a computed default is not a promise.
    return ast.unparse(_Computed().visit(node))


class _Computed(ast.NodeTransformer):
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return ast.copy_location(ast.Constant(...), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return ast.copy_location(ast.Constant(...), node)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
