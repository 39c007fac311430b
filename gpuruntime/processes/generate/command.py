"""The command `gpuruntime generate`: CRDs and RBAC manifests from the code of any package, and the users of NATS."""

import argparse
import asyncio
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gpuruntime.control import OFFLINE_CREDENTIALS, Declaration, Permission, required_permissions, roles_for
from gpuruntime.meta import TypedObject, encode
from gpuruntime.processes.generate.definition_changes import ReleasedError, changes_since, read_definitions
from gpuruntime.processes.generate.files import Generated
from gpuruntime.processes.generate.importing import ImportProblemError, find_object, kinds_of
from gpuruntime.processes.generate.manifest_yaml import render
from gpuruntime.processes.generate.nats_users import users_file
from gpuruntime.schema import DefinitionError, definition

__all__ = ["COMMAND"]

_CRDS: Final = """\
examples:
  gpuruntime generate crds widgets.api                          print them
  gpuruntime generate crds widgets.api --out manifests/crds     write one file per kind
  gpuruntime generate crds widgets.api --out manifests/crds --check
                                                                 exit with 1 if a file is stale, for CI
  gpuruntime generate crds widgets.api --check-against released/crds
                                                                 exit with 1 if stored objects or clients would break

A kind is a subclass of gpuruntime.meta.TypedObject with `DEFINITION: ClassVar = Definition(...)`.
"""
_RBAC: Final = """\
examples:
  gpuruntime generate rbac widgets.main:build --account widgets --namespace widgets-system
  gpuruntime generate rbac widgets.main:build --account widgets --namespace widgets-system --out manifests/rbac.yaml
                                                                 the same with --check: exit with 1 if it is stale

FUNCTION takes credentials, here of no cluster, and returns a gpuruntime.control.Manager that is built and not run:

  def build(credentials):
      manager = Manager(credentials, ManagerOptions("widgets"))
      manager.controller(Widget).owns(Deployment).updates_status().reconcile(reconcile)
      return manager

FUNCTION may be async. A process without a manager names a tuple of declarations instead.
"""
_NATS_USERS: Final = """\
examples:
  gpuruntime generate nats-users                                print them
  gpuruntime generate nats-users --out users.conf               write a file, for an account of NATS to include

The file has what each process may publish and subscribe to. It has no passwords: the server reads them from variables
of its environment, such as NATS_PASSWORD_RUNTIME_API, whose values are in double quotes.
"""


class _GenerateError(Exception):
    """Nothing can be generated; the message says what to change."""


def _subcommand(what: Any, name: str, help_text: str, epilog: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = what.add_parser(
        name,
        help=help_text,
        description=f"Generate {help_text}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _crds(arguments: argparse.Namespace) -> int:
    command = f"gpuruntime generate crds {' '.join(arguments.packages)}"
    manifests = _definitions(arguments.packages)
    broken = 0 if arguments.check_against is None else _compare(manifests, arguments.check_against)
    if arguments.check_against is not None and (arguments.out is None or (broken and not arguments.check)):
        # Breaking definitions are not written: the files may be those that they were compared with.
        return broken
    header = _header(command)
    if arguments.out is None:
        print(render(manifests, header), end="")
        return 0
    texts = {arguments.out / f"{item['metadata']['name']}.yaml": render([item], header) for item in manifests}
    return _write_or_check(Generated(f"# {header}\n", texts, arguments.out), arguments, command) or broken


def _definitions(packages: Sequence[str]) -> list[dict[str, Any]]:
    kinds = dict.fromkeys(kind for package in packages for kind in kinds_of(package))
    together: dict[tuple[str, str], list[type[TypedObject]]] = {}
    for kind in kinds:
        together.setdefault((kind.KIND.group, kind.KIND.plural), []).append(kind)
    return [definition(*together[name]) for name in sorted(together)]


def _compare(manifests: Sequence[dict[str, Any]], directory: Path) -> int:
    changes = list(changes_since(read_definitions(directory), manifests))
    for name, change in changes:
        print(f"{change.severity}: {name}: {change.path} {change.problem}", file=sys.stderr)
    return 1 if any(change.severity == "breaking" for _, change in changes) else 0


def _rbac(arguments: argparse.Namespace) -> int:
    target, account, namespace = arguments.target, arguments.account, arguments.namespace
    command = f"gpuruntime generate rbac {target} --account {account} --namespace {namespace}"
    permissions = asyncio.run(_permissions(target))
    objects = [encode(granted) for granted in roles_for(permissions, account=account, namespace=namespace)]
    header = _header(command)
    text = render(objects, header)
    if arguments.out is None:
        print(text, end="")
        return 0
    return _write_or_check(Generated(f"# {header}\n", {arguments.out: text}), arguments, command)


def _nats_users(arguments: argparse.Namespace) -> int:
    command = "gpuruntime generate nats-users"
    header = _header(command)
    text = users_file(header)
    if arguments.out is None:
        print(text, end="")
        return 0
    return _write_or_check(Generated(f"# {header}\n", {arguments.out: text}), arguments, command)


async def _permissions(target: str) -> tuple[Permission, ...]:
    found = find_object(target)
    if callable(found):
        try:
            found = found(OFFLINE_CREDENTIALS)
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:
            raise _GenerateError(
                f"{target} failed: {type(error).__name__}: {error}; expected a function that takes credentials and"
                " builds a Manager without a cluster"
            ) from error
    if hasattr(found, "permissions"):
        permissions: tuple[Permission, ...] = found.permissions
        return permissions
    if isinstance(found, tuple | list) and all(isinstance(item, Declaration) for item in found):
        return required_permissions([], found)
    raise _GenerateError(
        f"{target}: expected a function that returns a Manager, or a tuple of declarations,"
        f" got {type(found).__qualname__}"
    )


def _write_or_check(generated: Generated, arguments: argparse.Namespace, command: str) -> int:
    if not arguments.check:
        for line in generated.write():
            print(line)
        return 0
    stale = generated.stale()
    for line in stale:
        print(line, file=sys.stderr)
    if stale:
        print(f"run: {command} --out {arguments.out}", file=sys.stderr)
    return 1 if stale else 0


def _header(command: str) -> str:
    return f"Generated by `{command}`: do not edit, generate it again."


_OUTPUTS: Final = {"crds": _crds, "rbac": _rbac, "nats-users": _nats_users}


class _GenerateCommand:
    """Generates CRDs, RBAC manifests or the users of NATS, or checks generated files."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add description and flags."""
        parser.description = (
            "Write manifests from code. `gpuruntime generate crds --help`, `gpuruntime generate rbac --help` and"
            " `gpuruntime generate nats-users --help` show examples."
        )
        what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
        crds = _subcommand(what, "crds", "CustomResourceDefinitions of the kinds of a package", _CRDS)
        crds.add_argument("packages", nargs="+", metavar="PACKAGE", help="a package with all its modules, or a module")
        crds.add_argument("--out", type=Path, metavar="DIR", help="write one file per kind there (default: print)")
        crds.add_argument(
            "--check-against", type=Path, metavar="DIR", help="compare with the released definitions there"
        )
        rbac = _subcommand(what, "rbac", "the least privileged roles of a process, and their bindings", _RBAC)
        rbac.add_argument("target", metavar="MODULE:FUNCTION", help="function that builds the manager of the process")
        rbac.add_argument("--account", required=True, metavar="NAME", help="ServiceAccount of the process")
        rbac.add_argument("--namespace", required=True, metavar="NS", help="namespace of the ServiceAccount")
        rbac.add_argument("--out", type=Path, metavar="FILE", help="write there (default: print)")
        users = _subcommand(what, "nats-users", "the users of NATS and their permissions", _NATS_USERS)
        users.add_argument("--out", type=Path, metavar="FILE", help="write there (default: print)")
        for command in (crds, rbac, users):
            command.add_argument("--check", action="store_true", help="write nothing; exit with 1 if --out is stale")

    def run(self, arguments: argparse.Namespace) -> int:
        """Generate or check: 1 if a check failed or nothing can be generated, 2 if the flags are invalid."""
        if arguments.check and arguments.out is None:
            print("error: --check compares with files: name them with --out", file=sys.stderr)
            return 2
        if str(Path.cwd()) not in sys.path:
            # As with `python -m`: the package need not be installed.
            sys.path.insert(0, str(Path.cwd()))
        try:
            return _OUTPUTS[arguments.what](arguments)
        except (ImportProblemError, DefinitionError, ReleasedError, _GenerateError, ValueError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1


COMMAND: Final = _GenerateCommand()
