"""From a checked config to everything a run is made of. Knows the models, the partition and the config.

A scenario is a function of the config and its input files alone (design R4, R10): rank 0 builds it and sends it to the
others. `build` puts the parts together; each other module turns some tables into a model's terms.
"""

from pdes.scenario.build import Scenario, build_scenario
from pdes.scenario.inputs import build_workload
from pdes.scenario.topology import build_topology
from pdes.scenario.training import training_job

__all__ = ["Scenario", "build_scenario", "build_topology", "build_workload", "training_job"]
