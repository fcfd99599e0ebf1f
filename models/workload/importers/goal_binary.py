"""GOAL schedules as LogGOPSim's compiler writes them: a head with a place for each rank, then its packed nodes.

Head: u64 cookie, u32 ranks, u8 largest cpu, u8 largest nic, then begin and end of each rank (u64, counted from behind
the cookie). A rank: u32 nodes, u32 roots, the roots, nodes of 39 bytes, and up to the
end an appendix of u32: who waits for a node's end, and for its start.
"""

import struct
from pathlib import Path

from models.workload.importers.goal_text import add_operation
from models.workload.trace.graph import ANY, COMPUTE, RECEIVE, SEND, GraphBuilder, Leniency, TraceGraph
from pdes.errors import ConfigError
from pdes.files import require_file
from pdes.units import PS_PER_NS

COOKIE, COOKIE_BYTES = 4223, 8
HEAD = struct.Struct("<QIBB")
PLACE = struct.Struct("<QQ")
NODE = struct.Struct("<IcIQIBBIIII")
COUNT = struct.Struct("<I")
KINDS = {b"\x01": SEND, b"\x02": RECEIVE, b"\x03": COMPUTE}
_ANY = 2**32 - 1


def is_goal_binary(path: Path) -> bool:
    """Whether a file begins with the cookie."""
    try:
        with require_file(path).open("rb") as file:
            return file.read(8) == COOKIE.to_bytes(8, "little")
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a readable file") from error


class _Bytes:
    """Reads structures one after the other; ConfigError names the byte where the file ends too early."""

    def __init__(self, path: Path, data: bytes, at: int) -> None:
        self.path, self.data, self.at = path, data, at

    def take(self, form: struct.Struct) -> tuple:
        if self.at + form.size > len(self.data):
            found = f"ends within {form.size} bytes that should begin there; the file has {len(self.data)}"
            raise ConfigError(f"{self.path}, byte {self.at}", found, "a whole binary GOAL file")
        values = form.unpack_from(self.data, self.at)
        self.at += form.size
        return values


def n_binary_rank(path: Path) -> int:
    """How many ranks a schedule has. ConfigError: it does not begin as one."""
    with path.open("rb") as file:
        return _n_rank(_Bytes(path, file.read(HEAD.size), 0))


def _n_rank(head: _Bytes) -> int:
    cookie, n_rank, _, _ = head.take(HEAD)
    if cookie != COOKIE or n_rank < 1:
        raise ConfigError(str(head.path), f"begins with {cookie}, {n_rank} ranks", f"the cookie {COOKIE} and ranks")
    return n_rank


def read_goal_binary(path: Path, leniency: Leniency) -> TraceGraph:
    """All ranks of a schedule. ConfigError names the byte."""
    data = path.read_bytes()
    head = _Bytes(path, data, 0)
    n_rank = _n_rank(head)
    places = [head.take(PLACE) for _ in range(n_rank)]
    builder = GraphBuilder(str(path), leniency)
    for rank, (begin, end) in enumerate(places):
        _read_rank(builder, _Bytes(path, data, COOKIE_BYTES + begin), COOKIE_BYTES + end, rank)
        builder.end_rank(str(path))
    return builder.finish()


def _read_rank(builder: GraphBuilder, rest: _Bytes, end: int, rank: int) -> None:
    (n_node,), (n_root,) = rest.take(COUNT), rest.take(COUNT)
    rest.take(struct.Struct(f"<{n_root}I"))
    nodes = [rest.take(NODE) for _ in range(n_node)]
    n_appendix = max(0, end - rest.at) // COUNT.size
    appendix = rest.take(struct.Struct(f"<{n_appendix}I"))
    after: list[list[int]] = [[] for _ in nodes]  # by node: the numbers, from 1, of what it waits for
    starts: list[tuple[int, int]] = []
    for i, (*_, n_end, first_end, n_start, first_start) in enumerate(nodes):
        for n, first, is_start in ((n_end, first_end, False), (n_start, first_start, True)):
            if n and first + n > n_appendix:
                raise _broken(rest.path, rank, i, f"names places {first}..{first + n - 1} of {n_appendix}")
            for other in appendix[first : first + n]:
                if other >= n_node:
                    raise _broken(rest.path, rank, i, f"releases node {other + 1} of {n_node}")
                if is_start:
                    starts.append((other, i))
                else:
                    after[other].append(i + 1)
    ends = [list(numbers) for numbers in after]
    for other, i in starts:
        after[other] += ends[i]
    for i, (n_unmet, kind, peer, size, tag, cpu, *_) in enumerate(nodes):
        if kind not in KINDS:
            raise _broken(rest.path, rank, i, f"is of type {kind[0]}")
        if n_unmet != len(ends[i]) + sum(other == i for other, _ in starts):
            raise _broken(rest.path, rank, i, f"waits for {n_unmet} nodes, and {len(ends[i])} release it")
        values = {"cpu": cpu}
        if KINDS[kind] == COMPUTE:
            values["duration_ps"] = size * PS_PER_NS
        else:
            values |= {
                "size_bytes": size,
                "peer": ANY if peer == _ANY else peer,
                "tag": ANY if tag == _ANY else tag,
            }
        add_operation(builder, i + 1, KINDS[kind], values, "", after[i])


def _broken(path: Path, rank: int, i_node: int, found: str) -> ConfigError:
    return ConfigError(f"{path}, rank {rank}, node {i_node + 1}", found, "a binary GOAL file that fits together")
