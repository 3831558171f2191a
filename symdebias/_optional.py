"""Optional packages: import them, or say which command installs them."""

import importlib
from types import ModuleType

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
