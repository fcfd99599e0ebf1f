"""Workloads of ASTRA-sim 1 and SimAI/AICB: a line with the parallelism, the number of layers, a row of 12 for each.

A row is `name -1` and, for the forward pass, the input gradient and the weight gradient, compute time in ns,
collective and bytes; last the time in ns of the update behind each collective. Words are parted by blanks or tabs, even
in one line. Not here: in which order a pass goes through the rows (`layer_loops`).
"""

from dataclasses import dataclass
from pathlib import Path

from models.workload.trace.graph import COLLECTIVES
from pdes.errors import ConfigError
from pdes.files import read_text, whole_within

N_WORD = 12
NONE = -1
OPERATIONS = {
    "NONE": NONE,
    "ALLREDUCE": COLLECTIVES.index("all-reduce"),
    "ALLGATHER": COLLECTIVES.index("all-gather"),
    "REDUCESCATTER": COLLECTIVES.index("reduce-scatter"),
    "ALLTOALL": COLLECTIVES.index("all-to-all"),
    "BROADCAST": COLLECTIVES.index("broadcast"),
}
TP, DP, EP, DP_EP = "TP", "DP", "EP", "DP_EP"
SUFFIXES = {"_DP_EP": DP_EP, "_EP": EP}  # the longer one first
POLICIES = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER", "HYBRID_DLRM", "DATA", "MICRO")
_LARGEST = 2**50
MAX_NPUS = 2**20


@dataclass(frozen=True)
class Pass:
    """What a layer does in one of its three passes. group: what the collective's suffix says, "" without one."""

    compute_ns: int
    operation: int
    group: str
    size_bytes: int


@dataclass(frozen=True)
class Layer:
    """One row."""

    name: str
    forward: Pass
    input_gradient: Pass
    weight_gradient: Pass
    update_ns: int


@dataclass(frozen=True)
class LayerTable:
    """A file. numbers: what stands behind each word of the first line, such as model_parallel_NPU_group."""

    path: Path
    policy: str
    numbers: dict[str, list[int]]
    layers: tuple[Layer, ...]
    n_extra: int  # lines behind the promised rows, which nobody reads

    def number(self, key: str, default: int) -> int:
        """The first number behind a word of the first line. ConfigError: it is below 1."""
        found = self.numbers.get(key) or [default]
        if not 1 <= found[0] <= MAX_NPUS:
            accepted = f"a whole number from 1 on, at most {MAX_NPUS}"
            raise ConfigError(f"{self.path}, line 1", f"{key} {found[0]}", accepted)
        return found[0]


def read_layer_table(path: Path) -> LayerTable:
    """Read a workload. ConfigError names the line."""
    try:
        text = read_text(path).splitlines()
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a readable file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}, byte {error.start}", "is not text", "a workload of ASTRA-sim 1 or SimAI") from error
    lines = [(number, line.split()) for number, line in enumerate(text, 1) if line.strip()]
    policy, numbers = _head(path, lines)
    number, words = lines[1] if len(lines) > 1 else (len(text) + 1, [])
    if len(words) != 1 or not words[0].isdecimal():
        raise ConfigError(f"{path}, line {number}", f"found {' '.join(words)!r}", "the number of layers")
    n_layer = _whole(f"{path}, line {number}", words[0], "number of layers")
    if n_layer < 1:
        raise ConfigError(f"{path}, line {number}", "found '0'", "the number of layers")
    rows = lines[2 : 2 + n_layer]
    layers = tuple(_layer(path, number, words) for number, words in rows)
    if len(rows) < n_layer:
        found = f"the file ends with {len(rows)} of the {n_layer} layers that line {number} promises"
        raise ConfigError(f"{path}, line {lines[-1][0]}", found, "a whole file")
    return LayerTable(path, policy, numbers, layers, len(lines) - 2 - n_layer)


def _head(path: Path, lines: list[tuple[int, list[str]]]) -> tuple[str, dict[str, list[int]]]:
    policy = lines[0][1][0] if lines else ""
    if policy not in POLICIES:
        raise ConfigError(f"{path}, line 1", f"found {policy[:40]!r}", f"one of {', '.join(POLICIES)}")
    numbers: dict[str, list[int]] = {"": []}
    key = ""
    for word in lines[0][1][1:]:
        if word.removeprefix("-").isdecimal():
            size = _whole(f"{path}, line 1", word.removeprefix("-"), key or "number")
            numbers[key].append(-size if word.startswith("-") else size)
        else:
            key = word.removesuffix(":")
            numbers[key] = []
    return policy, numbers


def _layer(path: Path, number: int, words: list[str]) -> Layer:
    where = f"{path}, line {number}"
    if len(words) != N_WORD:
        accepted = "12: name -1, three times ns, collective, bytes, then ns"
        raise ConfigError(where, f"{len(words)} words", accepted)
    forward, input_gradient, weight_gradient = (_pass(where, *words[i : i + 3]) for i in (2, 5, 8))
    return Layer(words[0], forward, input_gradient, weight_gradient, _whole(where, words[11], "update time"))


def _pass(where: str, compute: str, kind: str, size: str) -> Pass:
    group = next((name for suffix, name in SUFFIXES.items() if kind.endswith(suffix)), "")
    plain = next((kind.removesuffix(suffix) for suffix in SUFFIXES if kind.endswith(suffix)), kind)
    if plain not in OPERATIONS:
        raise ConfigError(where, f"the collective {kind!r}", f"{', '.join(OPERATIONS)}, with or without _EP or _DP_EP")
    size_bytes = _whole(where, size, "bytes")
    operation = OPERATIONS[plain] if size_bytes > 0 else NONE
    return Pass(_whole(where, compute, "compute time"), operation, group, size_bytes)


def _whole(where: str, word: str, what: str) -> int:
    return whole_within(word, _LARGEST, where, what)
