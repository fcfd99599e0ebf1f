"""Flows, ports and switches by the names that people give them on the command line."""

import difflib
from functools import cached_property

import numpy as np

from models.topology.graph import Topology
from pdes.errors import ConfigError
from pdes.units import is_count, shown

MOST_SHOWN = 8
PORT_FORMS = 'Accepted: "leaf3:2" (port 2 of node leaf3, from 0), "leaf3->spine1", or a port_id of ports.parquet'


class Entities:
    """The names of one scenario. Every method raises ConfigError that begins with `where`."""

    def __init__(self, topology: Topology, n_flow: int) -> None:
        self._topology, self._n_flow = topology, n_flow

    @cached_property
    def _node_of(self) -> dict[str, int]:
        return {name: node for node, name in enumerate(self._topology.node_name)}

    def flow(self, text: str, where: str) -> int:
        """A flow by its flow_id."""
        if is_count(text) and int(text) < self._n_flow:
            return int(text)
        found = f"{shown(text)} is no flow"
        accepted = f"flow_id 0 to {self._n_flow - 1}" if self._n_flow else "there are no flows"
        raise ConfigError(where, found, f"Accepted: {accepted}")

    def switch(self, text: str, where: str) -> int:
        """A switch by its name."""
        node = self._node(text, where, "switch")
        if not self._topology.is_switch[node]:
            raise ConfigError(where, f"{shown(text)} is a host", "Accepted: the name of a switch")
        return node

    def port(self, text: str, where: str) -> int:
        """A port: "node:number", "node->peer" or its id."""
        t = self._topology
        if is_count(text):
            if int(text) < t.n_port:
                return int(text)
            raise ConfigError(where, f"{text} is no port", f"Accepted: port_id 0 to {t.n_port - 1}")
        for mark, find in (("->", self._port_to), (":", self._port_at)):
            name, is_there, rest = text.rpartition(mark)
            if is_there:
                return find(self._node(name.strip(), where, "node"), rest.strip(), where)
        raise ConfigError(where, f"{shown(text)} is no port", PORT_FORMS)

    def port_name(self, port: int) -> str:
        """ "leaf3:2", which `port` takes."""
        t = self._topology
        node = int(t.port_src[port])
        return f"{t.node_name[node]}:{int(np.searchsorted(np.flatnonzero(t.port_src == node), port))}"

    def port_text(self, port: int) -> str:
        """ "leaf3:2 (leaf3->host26)": for people."""
        t = self._topology
        return f"{self.port_name(port)} ({t.node_name[t.port_src[port]]}->{t.node_name[t.port_dst[port]]})"

    def _node(self, name: str, where: str, what: str) -> int:
        if name not in self._node_of:
            close = difflib.get_close_matches(name, self._node_of, n=3, cutoff=0.5)
            names = close or list(self._node_of)[:MOST_SHOWN]
            accepted = ", ".join(map(shown, names))
            raise ConfigError(where, f"{shown(name)} is no {what}", f"Accepted: names of nodes, such as {accepted}")
        return self._node_of[name]

    def _port_at(self, node: int, number: str, where: str) -> int:
        t = self._topology
        mine = np.flatnonzero(t.port_src == node)
        if is_count(number) and int(number) < len(mine):
            return int(mine[int(number)])
        raise ConfigError(
            where, f"{shown(number)} is no port of {t.node_name[node]}", f"Accepted: {self._listed(mine)}"
        )

    def _port_to(self, node: int, peer: str, where: str) -> int:
        t = self._topology
        mine = np.flatnonzero(t.port_src == node)
        found = [port for port in mine.tolist() if t.node_name[t.port_dst[port]] == peer]
        if len(found) == 1:
            return found[0]
        text = f"{t.node_name[node]} has {len(found) or 'no'} links to {shown(peer)}"
        raise ConfigError(where, text, f"Accepted: {self._listed(np.array(found) if found else mine)}")

    def _listed(self, ports: np.ndarray) -> str:
        t = self._topology
        texts = [f"{self.port_name(port)} to {t.node_name[t.port_dst[port]]}" for port in ports[:MOST_SHOWN].tolist()]
        return ", ".join(texts) + (f", and {len(ports) - MOST_SHOWN} more" if len(ports) > MOST_SHOWN else "")
