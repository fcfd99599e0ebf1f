"""pdes-sim: a parallel packet-level simulator of GPU training clusters.

From Python:

    import pdes
    config = pdes.load_config("config.toml", ["topology.gpus=32"])    # or pdes.make_config(topology={...}, ...)
    result = pdes.simulate(config)     # writes the result folder that the config names
    result.flows.to_pandas()           # tables are Arrow's: polars.from_arrow(result.flows)

Nothing heavy is imported before it is used, so that the command line starts at once.
"""

from typing import TYPE_CHECKING, Any

from pdes.errors import CapacityError, CausalityError, ConfigError, SimError

if TYPE_CHECKING:
    from pdes.config import Config, load_config
    from pdes.config.values import make_config
    from pdes.experiments.run import simulate_many
    from pdes.result import Result
    from pdes.searching.run import search
    from pdes.simulation import simulate
    from pdes.sweeps.run import sweep

    NEVER: int

    def scaled(at_100g: int | float | str) -> Any: ...


__all__ = [
    "NEVER",
    "CapacityError",
    "CausalityError",
    "Config",
    "ConfigError",
    "Result",
    "SimError",
    "load_config",
    "make_config",
    "scaled",
    "search",
    "simulate",
    "simulate_many",
    "sweep",
]

_HOMES = {
    "Config": "pdes.config",
    "load_config": "pdes.config",
    "make_config": "pdes.config.values",
    "Result": "pdes.result",
    "simulate": "pdes.simulation",
    "simulate_many": "pdes.experiments.run",
    "search": "pdes.searching.run",
    "sweep": "pdes.sweeps.run",
    "scaled": "models.congestion.interface",  # these two are for congestion controls of one's own
    "NEVER": "models.congestion.interface",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pdes' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
