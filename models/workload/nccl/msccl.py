"""MSCCL algorithms: an XML file that says, for each GPU and threadblock, which chunks go where in which order.

A file has <algo> with <gpu id i_chunks o_chunks s_chunks>, in these <tb id send recv chan> (peers, -1: none), in these
<step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep>. Types: s send; r receive; rcs receive, copy, send; rrc
receive, reduce, copy; rrs receive, reduce, send; rrcs receive, reduce, copy, send; cpy copy; re reduce; nop. A step
waits for step `deps` of threadblock `depid` (MSCCL's interpreter, msccl_interpreter.h).
"""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from pdes.errors import ConfigError
from pdes.files import read_bytes
from pdes.units import whole_number

MAX_NUMBER = 2**20  # of whatever a file counts or numbers
MAX_CHUNKS = 2**20  # of all GPUs' buffers together
MAX_MOVED = 2**22  # chunks that all steps read: each is carried out with symbols
RECEIVES = {"r", "rcs", "rrc", "rrs", "rrcs"}
REDUCES = {"rrc", "rrs", "rrcs", "re"}
SENDS = {"s", "rcs", "rrs", "rrcs"}
TYPES = RECEIVES | SENDS | {"cpy", "re", "nop"}
COLLECTIVES = {
    "allreduce": "all-reduce", "allgather": "all-gather", "reducescatter": "reduce-scatter", "reduce_scatter":
    "reduce-scatter", "alltoall": "all-to-all", "broadcast": "broadcast",
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A step; buffers "i", "o", "s". after: (threadblock, step) of the same GPU that it waits for, or None."""

    type: str
    src: tuple[str, int]
    dst: tuple[str, int]
    n_chunk: int
    after: tuple[int, int] | None


@dataclass(frozen=True)
class Threadblock:
    """Steps in order. send, recv: GPUs, -1: none."""

    send: int
    recv: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Algorithm:
    """gpus[g][tb]: threadblocks. n_chunk: chunks of a rank's whole buffer. is_inplace: the output is the input."""

    name: str
    operation: str
    n_chunk: int
    is_inplace: bool
    gpus: tuple[tuple[Threadblock, ...], ...]


def read_msccl(path: Path) -> Algorithm:
    """Read a file. ConfigError that names the file and the element if it is not as above."""
    try:
        root = ElementTree.fromstring(read_bytes(path))
    except OSError as error:
        raise ConfigError(str(path), error.strerror or "cannot be read", "a readable MSCCL file") from error
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise ConfigError(str(path), str(error), "an MSCCL algorithm in XML") from error
    return _Reader(path).algorithm(root)


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path, self.n_chunk, self.n_moved = path, 1, 0

    def fault(self, where: str, found: str, accepted: str) -> ConfigError:
        return ConfigError(f"{self.path}, {where}", found, accepted)

    def number(self, element: ElementTree.Element, where: str, key: str, default: int | None = None) -> int:
        text = element.get(key, "" if default is None else str(default))
        try:
            value = whole_number(text)
            if abs(value) <= MAX_NUMBER:
                return value
        except ValueError:
            pass
        raise self.fault(where, f'{key} = "{text}"', f"Accepted: a whole number, at most {MAX_NUMBER:,}")

    def algorithm(self, root: ElementTree.Element) -> Algorithm:
        if root.tag != "algo":
            raise self.fault("first element", f"<{root.tag}>", "Accepted: <algo>")
        kind = root.get("coll", "")
        if kind not in COLLECTIVES:
            raise self.fault("algo", f'coll = "{kind}"', f"Accepted: {', '.join(COLLECTIVES)}")
        n_gpu = self.number(root, "algo", "ngpus")
        elements = sorted(root.findall("gpu"), key=lambda gpu: self.number(gpu, "gpu", "id"))
        ids = [self.number(gpu, "gpu", "id") for gpu in elements]
        if ids != list(range(n_gpu)):
            raise self.fault("algo", f"gpus {ids[:8]} and ngpus = {n_gpu}", "Accepted: each GPU from 0 on once")
        n_chunk = self.number(root, "algo", "nchunksperloop")
        if n_chunk < 1 or n_chunk * n_gpu > MAX_CHUNKS:
            accepted = f"Accepted: a whole number from 1 on, on all GPUs at most {MAX_CHUNKS:,}"
            raise self.fault("algo", f"nchunksperloop = {n_chunk}", accepted)
        self.n_chunk = n_chunk
        gpus = tuple(self.threadblocks(gpu, i, n_gpu) for i, gpu in enumerate(elements))
        is_inplace = bool(self.number(root, "algo", "inplace", 0))
        return Algorithm(root.get("name", self.path.stem), COLLECTIVES[kind], n_chunk, is_inplace, gpus)

    def threadblocks(self, gpu: ElementTree.Element, i_gpu: int, n_gpu: int) -> tuple[Threadblock, ...]:
        elements = sorted(gpu.findall("tb"), key=lambda tb: self.number(tb, f"gpu {i_gpu}", "id"))
        n_step = [len(tb.findall("step")) for tb in elements]
        found = []
        for i, tb in enumerate(elements):
            where = f"gpu {i_gpu}, tb {i}"
            if self.number(tb, where, "id") != i:
                raise self.fault(where, f"tb id = {tb.get('id')}", "Accepted: each threadblock from 0 on once")
            peers = [self.number(tb, where, key, -1) for key in ("send", "recv")]
            if any(peer != -1 and (peer == i_gpu or not 0 <= peer < n_gpu) for peer in peers):
                raise self.fault(where, f"send = {peers[0]}, recv = {peers[1]}", "Accepted: other GPUs, or -1")
            steps = sorted(tb.findall("step"), key=lambda step: self.number(step, where, "s"))
            read = tuple(self.step(step, f"{where}, step {k}", peers, n_step) for k, step in enumerate(steps))
            found.append(Threadblock(peers[0], peers[1], self.number(tb, where, "chan", 0), read))
        return tuple(found)

    def step(self, step: ElementTree.Element, where: str, peers: list[int], n_step: list[int]) -> Step:
        kind = step.get("type", "")
        if kind not in TYPES:
            raise self.fault(where, f'type = "{kind}"', f"Accepted: {', '.join(sorted(TYPES))}")
        if (kind in SENDS and peers[0] < 0) or (kind in RECEIVES and peers[1] < 0):
            raise self.fault(where, f'type = "{kind}" without a peer', "Accepted: with send or recv of its threadblock")
        ends = []
        for end in ("src", "dst"):
            buffer, offset = step.get(f"{end}buf", "i"), self.number(step, where, f"{end}off", 0)
            if buffer not in ("i", "o", "s") or offset < (-1 if kind == "nop" else 0):
                raise self.fault(where, f"{end}buf = {buffer}, {end}off = {offset}", "Accepted: i, o or s, from 0 on")
            ends.append((buffer, offset))
        n_chunk = self.number(step, where, "cnt", 1)
        if n_chunk < 1 and kind != "nop":
            raise self.fault(where, f"cnt = {n_chunk}", "Accepted: a whole number from 1 on")
        self.n_moved += n_chunk if kind != "nop" else 0
        if kind != "nop" and (n_chunk > self.n_chunk or self.n_moved > MAX_MOVED):
            accepted = f"Accepted: at most nchunksperloop = {self.n_chunk}, and {MAX_MOVED:,} of all steps together"
            raise self.fault(where, f"cnt = {n_chunk}", accepted)
        depends = (self.number(step, where, "depid", -1), self.number(step, where, "deps", -1))
        if depends[0] >= 0 and (depends[0] >= len(n_step) or not 0 <= depends[1] < n_step[depends[0]]):
            raise self.fault(where, f"depid = {depends[0]}, deps = {depends[1]}", "Accepted: a step of the same GPU")
        return Step(kind, ends[0], ends[1], n_chunk, depends if depends[0] >= 0 else None)
