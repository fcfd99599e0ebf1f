"""The passes of a pipeline stage in order, as far as their operations depend on them.

Equal tokens stand for equal operations, so that what repeats among them becomes a loop.
"""

from typing import NamedTuple

from models.compute.lower import segments
from models.compute.memory import left_after_input_gradients
from models.compute.stages import stage_layers
from models.workload.compiler.job import Job
from models.workload.compiler.schedules.dual_pipe import BOTH
from models.workload.compiler.schedules.schedule import stage_passes

NONE = -1
EXCHANGE = "exchange"


class Token(NamedTuple):
    """A pass as far as its operations depend on it: which, chunk, and whether buckets are gathered or reduced in it.

    late: a forward pass whose message leaves behind the next gradient, and the backward pass which that one is for.
    starts: a chunk whose parameters are gathered from here on; sums: one whose gradients are summed behind the pass.
    An EXCHANGE is no pass: gives and takes are the passes (which, chunk) whose messages leave and arrive in it.
    """

    which: str
    chunk: int
    gathers: bool
    reduces: bool
    late: bool = False
    starts: int = NONE
    sums: int = NONE
    gives: tuple[tuple[str, int], ...] = ()
    takes: tuple[tuple[str, int], ...] = ()


class Beside(NamedTuple):
    """What of data parallelism runs beside passes: gathers, sums; and whether stages do it at the same moment.

    Exchanges slow computing down beside them. If each stage of an interleaved pipeline began them by itself, a
    microbatch would meet one at every stage in turn. So Megatron-Core has all stages begin at one moment: the next but
    one chunk is gathered as the first stage begins a chunk, and a chunk is summed as the last stage is through with it
    (its align_param_gather and align_grad_reduce, forward_backward_pipelining_with_interleaving).
    """

    gathers: bool
    sums: bool
    gathers_together: bool = False
    sums_together: bool = False


def beside_passes(job: Job) -> Beside:
    """For all stages of a job."""
    layout = job.layout
    is_fsdp, is_interleaved = layout.zero == 3, layout.vpp > 1
    has_copies = layout.n_sharer > 1 or (not job.shape.is_dense and layout.n_expert_sharer > 1)
    gathers = is_fsdp or (has_copies and layout.zero > 0 and job.overlap_parameters)
    sums = is_fsdp or (has_copies and job.overlap_gradients)
    return Beside(
        gathers, sums,
        gathers and is_interleaved and not is_fsdp and job.align_parameters,
        sums and is_interleaved and layout.zero < 2 and job.align_gradients,
    )  # fmt: skip


def _together(tokens: list[Token], stage: int, beside: Beside) -> list[Token]:
    """The passes before which a chunk's parameters are gathered, and behind which its gradients are summed."""
    forward = [i for i, token in enumerate(tokens) if token.which == "forward"]
    backward = [i for i, token in enumerate(tokens) if token.which == "backward"]
    begins = {tokens[i].chunk: k for k, i in reversed([*enumerate(forward)])}
    ends = {tokens[i].chunk: k for k, i in enumerate(backward)}
    for chunk in range(2, len(begins)) if beside.gathers_together else ():
        i = forward[begins[chunk - 1] - stage]
        tokens[i] = tokens[i]._replace(starts=chunk)
    for chunk, k in ends.items() if beside.sums_together else ():
        if k + stage < len(backward):
            i = backward[k + stage]
            tokens[i] = tokens[i]._replace(sums=chunk)
    return tokens


def summed_last(tokens: list[Token]) -> list[int]:
    """Chunks whose gradients are summed behind all passes, in the order of their last ones."""
    summed = {token.sums for token in tokens}
    order = dict.fromkeys(token.chunk for token in reversed(tokens) if token.which == "backward")
    return [chunk for chunk in reversed(order) if chunk not in summed]


def stage_tokens(job: Job, stage: int, beside: Beside) -> list[Token]:
    """A stage's passes, with the first forward pass over a chunk where parameters are gathered once, and the last
    backward pass over it where gradients are reduced once."""
    layout = job.layout
    passes = stage_passes(
        job.schedule, layout.pp, stage, layout.vpp, layout.n_microbatch, _pass_times_ps(job),
        _left_permille(job),
    )  # fmt: skip
    seen: set[int] = set()
    left = {chunk: layout.n_microbatch // layout.n_copy for chunk in range(layout.n_chunk)}
    tokens = []
    n_ahead, m = _forwards_ahead(job, stage), layout.n_microbatch
    for one in passes:
        gathers = reduces = False
        if beside.gathers:
            gathers = layout.zero == 3 or (one.which == "forward" and one.chunk not in seen)
            seen.add(one.chunk)
        if one.which == BOTH:
            left[1 - one.chunk] -= 1
        if one.which in ("backward", "backward-weight"):
            left[one.chunk] -= 1
            is_last = layout.zero >= 2 or left[one.chunk] == 0
            reduces = beside.sums and not beside.sums_together and is_last
        late = one.microbatch >= n_ahead if one.which == "forward" else one.microbatch + n_ahead < m
        tokens.append(Token(one.which, one.chunk, gathers, reduces, late))
    tokens = _together(tokens, stage, beside)
    return with_exchanges(tokens) if exchanges_at_once(job) else tokens


def exchanges_at_once(job: Job) -> bool:
    """Whether stages exchange with both neighbours at once and wait for all of it: interleaved, and not overlapped."""
    return not job.overlap_pipeline and job.layout.vpp > 1


def with_exchanges(tokens: list[Token]) -> list[Token]:
    """An interleaved stage's passes with its exchanges between them, each of which ends when all of it has arrived.

    Behind a forward pass of the warm-up its activations leave and the next ones arrive, behind the last one the first
    gradient as well. In the steady part a stage exchanges once for a forward and a backward pass, then behind each
    backward pass (Megatron-Core, forward_backward_pipelining_with_interleaving without overlap_p2p_comm).
    """
    forward = [(one.which, one.chunk) for one in tokens if one.which == "forward"]
    backward = [(one.which, one.chunk) for one in tokens if one.which == "backward"]
    n_ahead = next(i for i, one in enumerate(tokens) if one.which == "backward")
    n_ahead -= n_ahead < len(forward)  # a pair's forward pass is none of the warm-up

    def exchange(gives: list[tuple[str, int]], takes: list[tuple[str, int]]) -> Token:
        return Token(EXCHANGE, 0, False, False, gives=tuple(gives), takes=tuple(takes))

    found, n_forward, n_backward, gives = [exchange([], forward[:1])], 0, 0, []
    for token in tokens:
        found.append(token)
        gives.append((token.which, token.chunk))
        n_forward, n_backward = n_forward + (token.which == "forward"), n_backward + (token.which == "backward")
        if token.which == "forward" and n_forward > n_ahead:
            continue  # its gradient's pass comes first
        takes = forward[n_forward : n_forward + 1] if token.which == "forward" or n_forward < len(forward) else []
        if n_forward >= n_ahead:
            takes = takes + backward[n_backward : n_backward + 1]
        found.append(exchange(gives, takes))
        gives = []
    return found


def _forwards_ahead(job: Job, stage: int) -> int:
    """Messages of forward passes that leave at once, where a stage waits for each: all but 1F1B's from the steady part.

    From there on a stage and the next one take turns: a gradient, then the activations of the pass before it. Both have
    the same order of messages, so that none waits for the other (as DeepSpeed's schedule has it).
    """
    is_last = stage == job.layout.pp - 1
    return (
        job.layout.n_microbatch
        if job.overlap_pipeline or job.schedule != "1f1b" or is_last
        else (job.layout.pp - 1 - stage)
    )


def _pass_times_ps(job: Job) -> tuple[int, int, int]:
    """Computing times of a middle stage's passes, for zero-bubble schedules; the same for every stage."""
    if not job.is_split:
        return (1, 1, 1)
    if job.pass_times_ps is not None:
        return job.pass_times_ps
    shape, layout = job.shape, job.layout
    parts = [shape.layer_kind(i) for i in stage_layers(shape, layout, layout.pp // 2)[0]]

    def time_ps(which: str) -> int:
        device = job.devices[0]
        return sum(s.time_ps for part in parts for s in segments(shape, layout, device, part, which))

    return time_ps("forward"), time_ps("backward-input"), time_ps("backward-weight")


def _left_permille(job: Job) -> int:
    """Of a middle stage's activations, what is held between the backward passes for inputs and for weights."""
    if not job.is_split:
        return 1000
    shape, layout = job.shape, job.layout
    layers = stage_layers(shape, layout, layout.pp // 2)[0]
    left = [left_after_input_gradients(shape, layout, shape.layer_kind(i)) for i in layers]
    return round(1000 * sum(left) / len(left)) if left else 1000
