"""Carrying an MSCCL algorithm out with symbols: who added what to each chunk, and whether the result is the collective.

A value is a count for each (GPU, chunk) of the inputs, so that something added twice is seen.
"""

from collections import Counter, deque
from pathlib import Path

from models.workload.nccl.msccl import RECEIVES, REDUCES, SENDS, Algorithm, Step
from pdes.errors import ConfigError

Value = Counter  # (gpu, input chunk) -> how often
Buffers = dict[tuple[str, int], Value]


def check_algorithm(algorithm: Algorithm, path: Path) -> list[Buffers]:
    """Run it; the buffers of each GPU. ConfigError if it stops half-way or a GPU ends with something else."""
    n = len(algorithm.gpus)
    buffers: list[Buffers] = [_inputs(algorithm, gpu) for gpu in range(n)]
    at = [[0] * len(threadblocks) for threadblocks in algorithm.gpus]
    wires: dict[tuple[int, int, int, int], deque] = {}
    moved = True
    while moved:
        moved = False
        for gpu, threadblocks in enumerate(algorithm.gpus):
            for i in range(len(threadblocks)):
                while _advance(algorithm, gpu, i, at, buffers[gpu], wires):
                    moved = True
    for gpu, threadblocks in enumerate(algorithm.gpus):
        for i, threadblock in enumerate(threadblocks):
            if at[gpu][i] < len(threadblock.steps):
                found = f"gpu {gpu}, tb {i} waits for ever at step {at[gpu][i]} ({threadblock.steps[at[gpu][i]].type})"
                raise ConfigError(str(path), found, "an algorithm that ends")
    left = sorted(key[:3] for key, values in wires.items() if values)
    if left:
        found = f"GPU {left[0][1]} never receives what GPU {left[0][0]} sends on channel {left[0][2]}"
        raise ConfigError(str(path), found, "an algorithm that receives all it sends")
    _check_results(algorithm, buffers, path)
    return buffers


def _place(algorithm: Algorithm, place: tuple[str, int]) -> tuple[str, int]:
    return ("i", place[1]) if algorithm.is_inplace and place[0] == "o" else place


def _inputs(algorithm: Algorithm, gpu: int) -> Buffers:
    """What a GPU has at first: its whole buffer; for an all-gather or a broadcast only its own part of the result."""
    n, n_chunk = len(algorithm.gpus), algorithm.n_chunk
    chunks = range(n_chunk)
    if algorithm.operation == "all-gather":
        own = n_chunk // n
        first = gpu * own if algorithm.is_inplace else 0
        return {("i", first + c): Value({(gpu, gpu * own + c): 1}) for c in range(own)}
    if algorithm.operation == "broadcast" and gpu:
        return {}
    return {("i", c): Value({(gpu, c): 1}) for c in chunks}


def _advance(algorithm: Algorithm, gpu: int, i: int, at: list[list[int]], buffers: Buffers, wires: dict) -> bool:
    """Carry out a threadblock's next step if it can be."""
    threadblock = algorithm.gpus[gpu][i]
    if at[gpu][i] == len(threadblock.steps):
        return False
    step = threadblock.steps[at[gpu][i]]
    if step.after is not None and at[gpu][step.after[0]] <= step.after[1]:
        return False
    received: list[Value] = []
    if step.type in RECEIVES:
        wire = wires.get((threadblock.recv, gpu, threadblock.channel, step.n_chunk))
        if not wire:
            return False
        received = wire.popleft()
    _apply(algorithm, step, received, buffers, wires, (gpu, threadblock.send, threadblock.channel, step.n_chunk))
    at[gpu][i] += 1
    return True


def _apply(algorithm: Algorithm, step: Step, received: list[Value], buffers: Buffers, wires: dict, out: tuple) -> None:
    values = []
    for k in range(step.n_chunk if step.type != "nop" else 0):
        src = _place(algorithm, (step.src[0], step.src[1] + k))
        dst = _place(algorithm, (step.dst[0], step.dst[1] + k))
        value = buffers.get(src, Value())
        if step.type == "re":
            value = value + buffers.get(dst, Value())
        elif step.type in REDUCES:
            value = value + received[k]
        elif received:
            value = received[k]
        if step.type not in ("s", "rrs"):
            buffers[dst] = value
        values.append(value)
    if step.type in SENDS:
        wires.setdefault(out, deque()).append(values)


def expected(algorithm: Algorithm, gpu: int) -> Buffers:
    """What a GPU has to have in the end, in its output (numbered as "i" where that is the input)."""
    n, n_chunk = len(algorithm.gpus), algorithm.n_chunk
    own = n_chunk // n
    results: dict[int, Value] = {}
    if algorithm.operation == "all-reduce":
        results = {c: Value({(g, c): 1 for g in range(n)}) for c in range(n_chunk)}
    elif algorithm.operation == "all-gather":
        results = {c: Value({(c // own, c): 1}) for c in range(own * n)}
    elif algorithm.operation == "broadcast":
        results = {c: Value({(0, c): 1}) for c in range(n_chunk)}
    elif algorithm.operation == "all-to-all":
        results = {g * own + c: Value({(g, gpu * own + c): 1}) for g in range(n) for c in range(own)}
    elif algorithm.operation == "reduce-scatter":
        first = gpu * own if algorithm.is_inplace else 0
        results = {first + c: Value({(g, gpu * own + c): 1 for g in range(n)}) for c in range(own)}
    return {("i" if algorithm.is_inplace else "o", c): value for c, value in results.items()}


def _check_results(algorithm: Algorithm, buffers: list[Buffers], path: Path) -> None:
    for gpu, own in enumerate(buffers):
        for (buffer, chunk), value in expected(algorithm, gpu).items():
            found = own.get((buffer, chunk), Value())
            if found != value:
                text = f"GPU {gpu} ends with {_text(found)} in chunk {chunk} of {buffer}"
                raise ConfigError(str(path), text, f"{_text(value)}, as {algorithm.operation} has it")


def _text(value: Value) -> str:
    """For people: GPUs and how often each is in."""
    gpus = sorted(value.items())
    more = ", ..." if len(gpus) > 4 else ""
    return "{" + ", ".join(f"GPU {g} chunk {c} x{n}" for (g, c), n in gpus[:4]) + more + "}"
