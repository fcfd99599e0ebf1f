"""SciPy, for policies that solve a problem, and for `pdes-sim calibrate`."""

import importlib
from typing import Any

from pdes.errors import ConfigError


def optimize(where: str = "[cluster] scheduler", what: str = "this policy") -> Any:
    """scipy.optimize. ConfigError: it is not installed; where, what: needs it."""
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError as error:
        accepted = 'pip install "pdes-sim[cluster]"'
        raise ConfigError(where, f"{what} needs SciPy, which is not installed", accepted) from error
