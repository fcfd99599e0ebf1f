"""Claims about GOAL: text and binary say the same, wildcards and comments count, broken files name line or byte."""

import struct
from pathlib import Path

import numpy as np
import pytest

from models.workload.importers.formats import TraceSource, n_rank, read_trace
from models.workload.importers.goal_binary import COOKIE, HEAD, NODE, PLACE
from models.workload.trace.graph import ANY, COMPUTE, RECEIVE, SEND, TraceGraph
from pdes.errors import ConfigError
from reference import made_traces as made


def read(path: Path) -> TraceGraph:
    return read_trace(TraceSource("goal", path), 8)[0]


def binary(ranks: list[tuple[list[tuple], list[int]]]) -> bytes:
    """A schedule. ranks: (nodes of (unmet, type, peer, size, tag, (n, first) of ends, of starts), appendix)."""
    parts, places = [], []
    at = HEAD.size + PLACE.size * len(ranks) - 8  # places count from behind the cookie
    for nodes, appendix in ranks:
        roots = [i for i, node in enumerate(nodes) if node[0] == 0]
        content = struct.pack(f"<II{len(roots)}I", len(nodes), len(roots), *roots)
        for unmet, kind, peer, size, tag, ends, starts in nodes:
            content += NODE.pack(unmet, bytes([kind]), peer, size, tag, 0, 0, *ends, *starts)
        content += struct.pack(f"<{len(appendix)}I", *appendix)
        parts.append(content)
        places.append(PLACE.pack(at, at + len(content)))
        at += len(content)
    return HEAD.pack(COOKIE, len(ranks), 0, 0) + b"".join(places) + b"".join(parts)


NOBODY, WILD = (0, 0), 2**32 - 1
RING = [  # made.GOAL_RING
    ([(0, 1, 1, 1000, 5, (1, 0), NOBODY), (0, 2, 2, 1000, 5, (1, 1), NOBODY), (2, 3, 0, 100, 0, NOBODY, NOBODY)],
     [2, 2]),
    ([(0, 2, 0, 1000, 5, (1, 0), NOBODY), (1, 1, 2, 2000, 5, NOBODY, NOBODY)], [1]),
    ([(0, 2, WILD, 2000, WILD, (1, 0), NOBODY), (1, 3, 0, 50, 0, NOBODY, (1, 1)), (1, 1, 0, 1000, 5, NOBODY, NOBODY)],
     [1, 2]),
]  # fmt: skip


def test_text_and_binary_are_the_same_graph(tmp_path: Path) -> None:
    (tmp_path / "ring.goal").write_text(made.GOAL_RING)
    (tmp_path / "ring.bin").write_bytes(binary(RING))
    text, packed = read(tmp_path / "ring.goal"), read(tmp_path / "ring.bin")
    for name in ("rank_start", "kind", "duration_ps", "size_bytes", "peer", "tag", "lane", "dep_start", "dep"):
        assert np.array_equal(getattr(text, name), getattr(packed, name)), name
    assert text.kind.tolist() == [SEND, RECEIVE, COMPUTE, RECEIVE, SEND, RECEIVE, COMPUTE, SEND]
    assert text.duration_ps[[2, 6]].tolist() == [100_000, 50_000]
    assert (text.peer[5], text.tag[5]) == (ANY, ANY)
    assert text.dep[text.dep_start[7] :].tolist() == [5]  # irequires: what the other one waits for
    assert not text.waits_for_ack
    assert [n_rank(TraceSource("goal", tmp_path / name)) for name in ("ring.goal", "ring.bin")] == [3, 3]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("num_ranks 3 ", "num_rank 3 ", r"line 1: found 'num_rank'"),
        ("rank 2 {", "rank 1 {", r"line 16: rank 1 a second time"),
        ("l2: recv", "l2: get", r"line 6: found 'get'"),
        ("l3 requires l2", "l3 requires l9", r"line 9: the label l9"),
        ("b: send 2000b", "a: send 2000b", r"line 13: the label a a second time"),
        ("calc 100", "calc soon", r"line 7: calc 'soon'"),
        ("*/", "", r"line 2: a comment without an end"),
        ("l3 requires l1\n", "l3 requires l1\nl1 requires l3\n", r"rank 0, node 1 \(l1\): is part of a circle"),
        ("tag 5 nic 0", "tag 6 nic 0\nc: recv 1b from 0 tag 9", r"rank 1, node 3 \(c\): a receive .*nobody sends"),
        ("x: recv 2000b from -1 tag -1", "x: recv 2000b from -1 tag 4", r"rank 2, node 1 \(x\): a receive from any"),
    ],
)
def test_what_is_wrong_names_the_line_or_the_node(old: str, new: str, found: str, tmp_path: Path) -> None:
    assert old in made.GOAL_RING
    (tmp_path / "x.goal").write_text(made.GOAL_RING.replace(old, new, 1))
    with pytest.raises(ConfigError, match=r"x\.goal, " + found):
        read(tmp_path / "x.goal")


def test_a_wildcard_that_takes_what_another_receive_names_is_refused(tmp_path: Path) -> None:
    text = made.GOAL_RING.replace("y: calc 50", "w: recv 2000b from 1 tag 5\ny: calc 50")
    text = text.replace("b requires a", "b requires a\nc: send 2000b to 2 tag 5")
    (tmp_path / "x.goal").write_text(text)
    with pytest.raises(ConfigError, match=r"rank 2, node 1 \(x\): a wildcard, and other receives name rank 1"):
        read(tmp_path / "x.goal")


def test_text_that_breaks_off_names_its_last_line(tmp_path: Path) -> None:
    lines = made.GOAL_RING.splitlines()
    for n in range(3, len(lines)):
        (tmp_path / "x.goal").write_text("\n".join(lines[:n]))
        with pytest.raises(ConfigError, match=rf"x\.goal, line {n}: ends here"):
            read(tmp_path / "x.goal")


def test_binary_that_breaks_off_names_the_byte(tmp_path: Path) -> None:
    whole = binary(RING)
    for size in range(9, len(whole)):
        (tmp_path / "x.bin").write_bytes(whole[:size])
        with pytest.raises(ConfigError, match=rf"x\.bin, byte \d+: ends within \d+ bytes.*the file has {size}"):
            read(tmp_path / "x.bin")


def test_binary_that_does_not_fit_together_names_the_node(tmp_path: Path) -> None:
    wrong = [(nodes, list(appendix)) for nodes, appendix in RING]
    wrong[1][1][0] = 7
    (tmp_path / "x.bin").write_bytes(binary(wrong))
    with pytest.raises(ConfigError, match=r"rank 1, node 1: releases node 8 of 2"):
        read(tmp_path / "x.bin")
