"""What is imported on demand: optional packages, and what higher rooms give to the nouns below them."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
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


def on_demand(package: str, homes: Mapping[str, Sequence[str]], rooms: Sequence[str] = ()) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose public names are imported when they are first asked for.

    Parameters
    ----------
    package : str
        Its dotted name.
    homes : dict of str to sequence of str
        Which names each of its modules gives. A module must not have the name of anything that it gives.
    rooms : sequence of str
        Modules and packages that are public themselves.
    """
    places = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in rooms:
            return importlib.import_module(f"{package}.{name}")
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
