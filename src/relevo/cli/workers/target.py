"""What `relevo worker` is told to run: `module:name`, found and checked."""

from __future__ import annotations

import inspect
import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from relevo.engine.consuming.handlers import AnyHandler
from relevo.engine.tasks import Task, Tasks
from relevo.errors import BadTarget

_SHAPE = "Write module:name, such as app.jobs:tasks."


def load_target(target: str) -> AnyHandler:
    """The `Tasks`, `Batch` or function that `target` names; modules of the current folder can be imported."""
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise BadTarget(target=target, reason="it is not of the form module:name", remedy=_SHAPE)
    if module_name.endswith(".py") or "/" in module_name:
        written = module_name.removesuffix(".py").replace("/", ".").strip(".")
        remedy = f"Write it as Python imports it: {written}:{path}."
        raise BadTarget(target=target, reason=f"{module_name!r} is a file, not a module", remedy=remedy)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: Any = _imported(module_name, target)
    for name in path.split("."):
        if not hasattr(found, name):
            raise BadTarget(target=target, reason=f"{module_name} has no {name!r}", remedy=_there_is(module_name))
        found = getattr(found, name)
    return _checked(found, target)


def describe(handler: AnyHandler) -> str:
    """A few words for the first line of the log.

    >>> describe(Tasks())
    'no tasks'
    """
    if isinstance(handler, Tasks):
        names = sorted(task.name for task in cast("Tasks[Any]", handler))
        return f"tasks {', '.join(names)}" if names else "no tasks"
    return str(getattr(handler, "__name__", type(handler).__name__))


def _imported(module_name: str, target: str) -> ModuleType:
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise _failed_inside(error, module_name, target) from error
        remedy = f"Start relevo in the folder that holds it (this is {Path.cwd()}), or install it."
        raise BadTarget(target=target, reason=f"there is no module {missing!r}", remedy=remedy) from None
    except (Exception, SystemExit) as error:
        raise _failed_inside(error, module_name, target) from error


def _failed_inside(error: BaseException, module_name: str, target: str) -> BadTarget:
    """The module is there and cannot be run: the last line of code that took part is where to look."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else module_name
    words = " ".join(str(error).split())
    reason = f"importing {module_name} raised {type(error).__name__}: {words} ({place})"
    return BadTarget(target=target, reason=reason, remedy=f'`python -c "import {module_name}"` shows all of it.')


def _there_is(module_name: str) -> str:
    module = sys.modules[module_name]
    names = [name for name, value in vars(module).items() if not name.startswith("_") and _may_be_one(value, module)]
    return f"It has {', '.join(sorted(names))}." if names else "Define a Tasks object or a function there."


def _may_be_one(value: object, module: ModuleType) -> bool:
    if inspect.isclass(value) or isinstance(value, ModuleType | Task):
        return False
    if inspect.isfunction(value):
        return value.__module__ == module.__name__
    return callable(value) and type(value).__module__.startswith("relevo.")


def _checked(found: object, target: str) -> AnyHandler:
    if isinstance(found, Task):
        remedy = "Name the Tasks object it belongs to: a worker serves all its tasks."
        raise BadTarget(target=target, reason=f"it is the single task {found.name!r}", remedy=remedy)
    if inspect.isclass(found):
        raise BadTarget(target=target, reason=f"it is the class {found.__name__}", remedy="Name an instance of it.")
    if not callable(found):
        remedy = "Name a Tasks object, a Batch, or a function that takes a Job."
        raise BadTarget(target=target, reason=f"expected a handler, got {type(found).__name__}", remedy=remedy)
    try:
        inspect.signature(found).bind(None)
    except TypeError:
        reason, remedy = f"{describe(found)} does not take one argument", "A handler takes a Job and nothing else."
        raise BadTarget(target=target, reason=reason, remedy=remedy) from None
    except ValueError:  # a callable without a signature: the first job will tell
        pass
    return cast("AnyHandler", found)
