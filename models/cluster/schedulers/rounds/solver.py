"""SciPy, for policies that solve a problem; nothing else of the project needs it."""

import importlib
from typing import Any

from pdes.errors import ConfigError


def optimize() -> Any:
    """scipy.optimize. ConfigError: it is not installed."""
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError as error:
        accepted = 'pip install "pdes-sim[cluster]"'
        raise ConfigError("[cluster] scheduler", "this policy needs SciPy, which is not installed", accepted) from error
