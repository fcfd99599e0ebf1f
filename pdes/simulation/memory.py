"""The memory that a run takes, said before it starts, and what there is of it.

What is expected is a sum over the tables that are known once a scenario is built, with what each row was measured to
take (`bench/memory.py` compares). Packets and rows of results follow what is under way, so theirs is the most that
there can be, up to a bound.
"""

import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from models.network.state.pair_records import PAIR_FACTS, QUEUE_PAIR, RECEIVER
from models.network.state.records import PACKET
from models.network.watch.results import FLOW_SPOOL_COLUMNS, TASK_SPOOL_COLUMNS
from models.workload.program import STREAM
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.results.spool import MEMORY_ROWS
from pdes.scenario import Scenario
from pdes.units import PS_PER_S, format_size

PROCESS_BYTES = 290_000_000  # Python with its libraries and the kernels, compiled before
PORT_BYTES, NODE_BYTES = 1600, 300  # in all tables of the topology, the network and its routes
PAIR_BYTES, PATH_WORD_BYTES = 560 + QUEUE_PAIR.itemsize + RECEIVER.itemsize, 40
STREAM_BYTES, PACKET_BYTES = 600, PACKET.itemsize + 16
SHARED_PORT_BYTES, SHARED_PATH_WORD_BYTES = 90, 8  # of these, what ranks of a machine share
SHARED_PAIR_BYTES, SHARED_STREAM_BYTES = 160 + PAIR_FACTS.itemsize, 2 * STREAM.itemsize
SKIP_PAIR_BYTES, SKIP_STREAM_BYTES = 180, STREAM.itemsize  # of these, what every rank has that skips
OWN_SHARE = 1.25  # of a rank's own queue pairs and streams in the mean, for placements that are not even
COPIES_OF_OPERATIONS = 3  # of the plan, while it is built
MAX_ROUND_TRIPS = 16  # of bytes that one host has on its way: what does not fit waits in it, not as packets
CGROUP = Path("/sys/fs/cgroup")
NO_LIMIT_BYTES = 2**60


def expected_bytes(scenario: Scenario, n_rank: int = 1) -> int:
    """Memory of one rank at most: the tables, which every rank has, and its share of the queue pairs and packets."""
    t, plan = scenario.topology, scenario.plan
    tables = t.n_port * PORT_BYTES + t.n_node * NODE_BYTES + len(scenario.paths.port) * PATH_WORD_BYTES
    pairs = len(plan.pair_src) * _own_bytes(scenario, n_rank, PAIR_BYTES, SHARED_PAIR_BYTES, SKIP_PAIR_BYTES)
    streams = len(plan.streams) * _own_bytes(scenario, n_rank, STREAM_BYTES, SHARED_STREAM_BYTES, SKIP_STREAM_BYTES)
    packets, program = _most_packets(scenario) * PACKET_BYTES // n_rank, plan.operations.nbytes * COPIES_OF_OPERATIONS
    return PROCESS_BYTES + tables + pairs + streams + packets + program + _rows_bytes(scenario, n_rank)


def shared_bytes(scenario: Scenario) -> int:
    """What of that the ranks of a machine have in memory once: topology, workload, paths."""
    n_port, plan, n_word = scenario.topology.n_port, scenario.plan, len(scenario.paths.port)
    of_plan = len(plan.pair_src) * SHARED_PAIR_BYTES + len(plan.streams) * SHARED_STREAM_BYTES
    return n_port * SHARED_PORT_BYTES + of_plan + n_word * SHARED_PATH_WORD_BYTES


def _own_bytes(scenario: Scenario, n_rank: int, each_bytes: int, shared_bytes: int, skip_bytes: int) -> int:
    """Of a queue pair or stream on one rank, in the mean: what changes of it is in memory on its own rank alone."""
    skips = skip_bytes if scenario.config.wormhole.may_skip else 0
    own = each_bytes - shared_bytes - skips
    return shared_bytes + skips + int(own * min(1.0, OWN_SHARE / n_rank))


def _most_packets(scenario: Scenario) -> int:
    """Packets that are under way at once: windows, as far as hosts can have so much on its way."""
    t, plan, payload = scenario.topology, scenario.plan, scenario.parameters.payload_bytes
    if not len(plan.pair_src):
        return 0
    window_bytes = np.where(scenario.max_window_bytes > 0, scenario.max_window_bytes, plan.pair_bytes)
    n_packet = np.minimum(window_bytes, plan.pair_bytes) / payload + 1
    of_host = np.bincount(plan.pair_src, weights=n_packet, minlength=t.n_host)
    trip_bytes = t.nic_rate_bps.astype(np.float64) / 8 * scenario.base_rtt_ps / PS_PER_S
    n_pair = np.bincount(plan.pair_src, minlength=t.n_host)
    return int(np.minimum(of_host, MAX_ROUND_TRIPS * trip_bytes / payload + n_pair).sum())


def _rows_bytes(scenario: Scenario, n_rank: int) -> int:
    """Rows of results that a single rank keeps in memory; several ranks, and larger tables, use the disk."""
    plan, output, n_byte = scenario.plan, scenario.config.output, 0
    for is_there, n_row, columns in (
        (output.flows, plan.n_flow, FLOW_SPOOL_COLUMNS),
        (plan.keeps_tasks, plan.n_task, TASK_SPOOL_COLUMNS),
    ):
        if is_there and n_rank == 1 and n_row <= MEMORY_ROWS:
            n_byte += 8 * n_row * len(columns)
    return n_byte


def free_bytes(files: Mapping[str, str] | None = None) -> int:
    """Memory that this process could get: of the machine, within its control group and its own limit.

    files: contents by path, for tests.
    """
    found = [_available(files), *_cgroup_rooms(files)]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        found.append(soft)
    return max(0, min(found))


def _read(path: str, files: Mapping[str, str] | None) -> str:
    if files is not None:
        return files.get(path, "")
    with suppress(OSError):
        return Path(path).read_text()
    return ""


def _available(files: Mapping[str, str] | None) -> int:
    for line in _read("/proc/meminfo", files).splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return NO_LIMIT_BYTES


def _cgroup_rooms(files: Mapping[str, str] | None) -> Iterator[int]:
    """What is left in each control group that this process is in, and in those around it, of either version."""
    for line in _read("/proc/self/cgroup", files).splitlines():
        number, names, place = line.split(":", 2)
        if number == "0":
            root, limit, used, cached = CGROUP, "memory.max", "memory.current", "inactive_file "
        elif "memory" in names.split(","):
            root, limit, used = CGROUP / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached = "total_inactive_file "
        else:
            continue
        folder = root / place.lstrip("/")
        for group in (folder, *folder.parents):
            if group == root.parent:
                break
            most, now = (_read(str(group / name), files).strip() for name in (limit, used))
            if most.isdigit() and now.isdigit():
                stat = _read(str(group / "memory.stat"), files)
                spare = next((int(s.split()[1]) for s in stat.splitlines() if s.startswith(cached)), 0)
                yield int(most) - int(now) + spare


def limit_bytes(config: Config) -> int | None:
    """What all ranks of a machine may have together; None: no limit."""
    limit = config.run.memory_limit
    return None if limit == "off" else free_bytes() if limit == "auto" else int(limit)


@contextmanager
def within_memory(config: Config) -> Iterator[None]:
    """A block that builds a scenario: ConfigError if it asks for more memory than there is."""
    limit = limit_bytes(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if limit is not None:
        most = _data_bytes() + limit
        with suppress(ValueError, OSError):  # above a limit that there is already
            if soft == resource.RLIM_INFINITY or most < soft:
                resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    except MemoryError as error:
        found = "building this topology and workload takes more memory than there is"
        raise _too_large(config, limit, found) from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """Of this process, as RLIMIT_DATA counts."""
    for line in _read("/proc/self/status", None).splitlines():
        if line.startswith("VmData:"):
            return 1024 * int(line.split()[1])
    return 0


def fits(scenario: Scenario, n_rank: int, n_rank_here: int) -> bool:
    """Whether the ranks here are expected to find room. n_rank: that share the network; n_rank_here: on this one."""
    more_bytes = _needed_bytes(scenario, n_rank, n_rank_here) - PROCESS_BYTES  # one of these processes is there already
    limit = limit_bytes(scenario.config)
    return limit is None or more_bytes <= limit


def _needed_bytes(scenario: Scenario, n_rank: int, n_rank_here: int) -> int:
    """Of all ranks here."""
    return expected_bytes(scenario, n_rank) * n_rank_here - shared_bytes(scenario) * (n_rank_here - 1)


def check_memory(scenario: Scenario, n_rank: int, n_rank_here: int) -> None:
    """ConfigError if a run would not fit. n_rank: in all; n_rank_here: on this machine."""
    if fits(scenario, n_rank, n_rank_here):
        return
    size = format_size(_needed_bytes(scenario, n_rank, n_rank_here) // n_rank_here)
    ranks = f"{n_rank_here} ranks with {size} each" if n_rank_here > 1 else size
    raise _too_large(scenario.config, limit_bytes(scenario.config), f"the run is expected to take {ranks}")


def _too_large(config: Config, limit: int | None, found: str) -> ConfigError:
    room = "" if limit is None else f", and there is room for {format_size(limit)}"
    accepted = 'Accepted: a smaller run, fewer ranks on this machine, or [run] memory_limit = "off" to try it'
    return ConfigError(f"{config.source}: [run] memory_limit", f"{found}{room}", accepted)
