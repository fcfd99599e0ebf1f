"""The congestion control that [network] names, with its parameters checked; and its part in a result's identity."""

from typing import Any, NamedTuple

from models.congestion.interface import Scaled
from models.congestion.law import Law, find_law
from pdes.config import LAW_TABLES, Config
from pdes.config.tables.network import NetworkConfig
from pdes.errors import ConfigError

LAW_CONSTANTS = {"run.py": "default"}  # what the config calls a law's own set of constants
MIN_ACK_BYTES = 46  # Ethernet 14, IPv4 20, ACK 12: as ns-3's, before padding; telemetry that is echoed comes on top


class Control(NamedTuple):
    """A law with its parameters. values: of `Law.parameter_values`; table: its key below [network]."""

    law: Law
    values: dict[str, Any]
    table: str

    def data_bytes(self, network: NetworkConfig) -> int:
        """A full data packet on the wire."""
        return network.payload_bytes + network.header_bytes + self.law.header_bytes

    def ack_bytes(self, network: NetworkConfig) -> int:
        """An ACK on the wire: it echoes what the control adds to data packets."""
        return max(network.ack_bytes, MIN_ACK_BYTES + self.law.header_bytes)

    def identity(self) -> dict[str, Any]:
        """Plain JSON: every parameter, and for a file of the user's a digest of it."""
        values = {
            name: {"at_100g": value.at_100g} if isinstance(value, Scaled) else value
            for name, value in sorted(self.values.items())
        }
        return {"parameters": values} | ({"digest": self.law.digest} if self.law.digest else {})


def find_control(config: Config) -> Control:
    """Find and check it; tables of other controls in the config are checked too. Raises ConfigError."""
    network = config.network
    chosen: Control | None = None
    for name, given in network.law_parameters().items():
        law = find_law(name, config.source.parent)
        table = name if name in LAW_TABLES else "parameters"
        is_chosen = name == network.congestion_control
        constants = LAW_CONSTANTS.get(network.constants, network.constants) if is_chosen else "default"
        try:
            values = law.parameter_values(given, constants)
        except ConfigError as error:
            raise _placed(error, law.name, table) from error
        if is_chosen:
            chosen = Control(law, values, table)
    assert chosen is not None
    return chosen


def _placed(error: ConfigError, name: str, table: str) -> ConfigError:
    """The error with the key that the config has: a law does not know the name of its table."""
    head, _, key = error.where.rpartition("] ")
    if key == "constants":
        accepted = error.accepted.replace('"default"', '"run.py"').replace("default", "run.py")
        return ConfigError("[network] constants", error.found, accepted)
    if head == f"[network.{name}":
        return ConfigError(f"[network.{table}] {key}", error.found, error.accepted)
    return error


def law_identity(network: dict[str, Any], control: Control) -> dict[str, Any]:
    """[network] of the resolved config, with the chosen control's parameters in place of the tables of all."""
    attributes = {*LAW_TABLES.values(), "parameters"}
    kept = {key: value for key, value in network.items() if key not in attributes}
    return dict(sorted((kept | {"law": control.identity()}).items()))
