"""Finding a function by its name: `module:function` or `path/file.py:function`."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuruntime.framework.user_function import FunctionError

__all__ = ["load_target"]


def load_target(target: str) -> Any:
    """Import the module of a target, and return what the target names in it.

    The directory of a file comes first on the path of imports, as if Python ran that file.

    Raises:
        FunctionError: the target is malformed, or names nothing. What the module itself raises is not changed.
    """
    where, separator, name = target.rpartition(":")
    if not separator or not where or not name:
        raise FunctionError(f"expected module:function or file.py:function, got {target!r}")
    module = _of_file(Path(where)) if where.endswith(".py") else _of_module(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise FunctionError(f"{where} has no {name!r}")
        found = getattr(found, part)
    return found


def _of_module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise FunctionError(f"there is no module {error.name!r}: expected one on {sys.path}") from None


def _of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FunctionError(f"there is no file {path}")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FunctionError(f"{path} is no Python file")
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
