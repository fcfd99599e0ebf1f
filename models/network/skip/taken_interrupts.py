"""Interrupts (`interrupts`) as all ranks take them at the end of a round: who met frozen ports, and when."""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.skip.room import Room
from models.network.state.records import N_CROWDED, N_FLUID, N_INTERRUPT
from models.network.state.ways import path_ports
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.skipping.fluid.flow_table import NOBODY

Instants = dict[int, int]  # ps, by queue pair


def take_interrupts(
    state: NetworkState, world: World, room: Room | None, later: Instants
) -> tuple[Instants, Instants]:  # fmt: skip
    """(queue pairs of all ranks that met frozen ports, with the instants, those that have to wait); nobody is stopped
    any more.

    With shared buffers those of the first instant alone. What a switch does is up to what has thawed until then, and a
    switch that has stopped is behind what thaws later. So what was posted later waits, as what is in `later` did, and
    packets at switches come again.
    """
    nic, counters, own = state.nic, state.fabric.counters, np.zeros((0, 2), np.int64)
    if counters[N_INTERRUPT] or counters[N_CROWDED]:
        rows = nic.interrupted[: counters[N_INTERRUPT]].astype(np.int64)
        own = np.column_stack([rows, nic.interrupt_ps[rows]])
        nic.interrupt_ps[rows] = NEVER
        counters[N_INTERRUPT] = 0
        state.fabric.stop_ps[:] = NEVER
    if room is None:
        return dict(world.gather_rows(own).tolist()), later
    parts = world.gather_values((own, room.interrupted(state)))
    posted = later | dict(np.concatenate([part for part, _ in parts]).tolist())
    crowded = [(at_ps, pair) for _, part in parts for pair, at_ps in part.items()]
    first_ps = min([*posted.values(), *(at_ps for at_ps, _ in crowded)], default=NEVER)
    found = dict.fromkeys([pair for pair, at_ps in posted.items() if at_ps == first_ps], first_ps)
    found |= dict.fromkeys([pair for at_ps, pair in crowded if at_ps == first_ps], first_ps)
    return found, {pair: at_ps for pair, at_ps in posted.items() if at_ps > first_ps}


def meets_frozen(state: NetworkState, pair: int) -> bool:
    """Whether a port of a queue pair's ways is frozen."""
    facts, path = state.nic.facts[pair], state.fabric.path_port
    ways = [path_ports(path, int(facts[name])) for name in ("data_path", "ack_path")]
    return bool((state.nic.frozen_port[np.concatenate(ways)] == 1).any())


def meets_others(state: NetworkState, pair: int) -> bool:
    """Whether a port of a queue pair's ways is frozen, or one of its data's has flows at flow level."""
    if meets_frozen(state, pair):
        return True
    ports = path_ports(state.fabric.path_port, int(state.nic.facts[pair]["data_path"]))
    return bool(state.fabric.counters[N_FLUID] > 0 and (state.nic.fluid_port[ports] != NOBODY).any())
