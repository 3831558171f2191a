"""What is imported on demand: optional packages, and what higher rooms give to the nouns below them."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from symdebias.exceptions import MissingDependencyError


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional package.

    Parameters
    ----------
    module : str
        Dotted name of the module.
    extra : str
        Name of the extra of symdebias that installs it.

    Raises
    ------
    MissingDependencyError
        The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingDependencyError(
            f"this needs the package {package}, which is not installed. "
            f'Install it with: pip install "symdebias[{extra}]"'
        ) from error


# Set once by the root, which knows all rooms: name -> dotted module and function.
_PROVIDED: dict[str, tuple[str, str]] = {}


def provide(name: str, module: str, function: str) -> None:
    """Say which function does what a noun below it offers as a method; its module is not imported yet.

    Parameters
    ----------
    name : str
        What it does.
    module, function : str
        Dotted name of the module, and name of the function in it.
    """
    _PROVIDED[name] = (module, function)


def provided(name: str) -> Callable[..., Any]:
    """Return the function that `provide` named."""
    module, function = _PROVIDED[name]
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
