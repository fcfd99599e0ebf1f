"""How ASTRA-sim 1 and SimAI go through a workload's layers: one pass, forth and back, as a trace graph.

After ASTRA-sim's Workload.cc. Forward: compute, then the collective, which the next layer waits for. Back, from the
last layer: input gradient and its collective, weight gradient and its collective; the next layer waits for the former
collective, nobody for the latter. DATA computes the weight gradient first. HYBRID_DLRM n: the first layer's all-to-all
is waited for at layer n, its gradient's issued behind layer n + 1. FWD_IN_BCKWD: a layer among `checkpoint_initiates`
has the layers from the last checkpoint on computed again. MICRO: each row's weight-gradient collective, one after the
other (ASTRA-sim issues only the first row's). What stands for all is done once; pp_comm is left out, with a warning.
Groups, as SimAI numbers ranks: TP neighbours; then EP replicas; then the rest of DP; pipeline stages outermost, all of
which do the same. Sizes of an all-gather: SimAI counts what is gathered, ASTRA-sim a rank's shard of it.
"""

from pathlib import Path

from models.workload.importers.layer_table import DP, DP_EP, EP, NONE, TP, Layer, LayerTable, Pass, read_layer_table
from models.workload.trace.graph import (
    COLLECTIVE,
    COLLECTIVES,
    COMPUTE,
    NOTHING,
    GraphBuilder,
    Leniency,
    TraceGraph,
    TraceNode,
)
from pdes.errors import ConfigError
from pdes.units import PS_PER_NS

ALL_GATHER = COLLECTIVES.index("all-gather")


def read_layers(path: Path, n_gpu: int | None, n_host: int, is_simai: bool, leniency: Leniency) -> TraceGraph:
    """A workload's pass over n_gpu GPUs of one pipeline stage, else over all that the file says or the cluster has."""
    table = read_layer_table(path)
    groups = _Groups(table, n_gpu or table.number("all_gpus", n_host), 1 if n_gpu else table.number("pp", 1))
    if table.n_extra:
        leniency.note("lines behind the promised layers, not read", f"{path}, line {3 + len(table.layers)}")
    if "pp_comm" in table.numbers:
        leniency.note("pp_comm, the pipeline's messages, not modelled", f"{path}, line 1")
    builder = GraphBuilder(str(path), leniency)
    for rank in range(groups.n_gpu):
        _Rank(builder, table, groups, rank, gathers_whole=is_simai).run()
        builder.end_rank(str(path))
    return builder.finish(facts={"layers": len(table.layers), "layout": groups.layout})


def n_layer_gpu(path: Path, n_gpu: int | None) -> int | None:
    """Over how many GPUs a workload's pass goes; None: the file does not say, so all that there are."""
    table = read_layer_table(path)
    return n_gpu or (table.number("all_gpus", 1) if table.numbers.get("all_gpus") else None)


class _Groups:
    """The communicators of a workload."""

    def __init__(self, table: LayerTable, n_gpu: int, pp: int) -> None:
        self.n_gpu, self.pp = n_gpu, pp
        is_hybrid = table.policy.startswith("HYBRID_TRANSFORMER")
        self.tp = table.number("model_parallel_NPU_group", 1) if is_hybrid else 1
        self.ep = table.number("ep", 1)
        stage = self.tp * self.pp
        if n_gpu % (stage * self.ep):
            found = f"TP {self.tp} x EP {self.ep} x PP {self.pp} on {n_gpu} GPUs"
            raise ConfigError(
                f"{table.path}, line 1", found, "a divisor of the GPUs; [workload] gpus sets their number"
            )
        self.dp = n_gpu // stage
        self.is_hybrid = is_hybrid
        self.layout = f"TP{self.tp}-EP{self.ep}-DP{self.dp}-PP{self.pp}"

    def members(self, group: str, rank: int) -> tuple[str, tuple[int, ...]]:
        """(name, ranks) of the communicator of a kind that a rank is in."""
        if not self.is_hybrid:
            return "all", tuple(range(self.n_gpu))
        tp, ep, dp = self.tp, self.ep, self.dp
        place, first = rank % (tp * dp), rank - rank % (tp * dp)
        tensor, replica = place % tp, place // tp
        ranks = {
            TP: range(first + replica * tp, first + (replica + 1) * tp),
            DP: range(first + tensor, first + tp * dp, tp),
            EP: range(first + tensor + replica // ep * ep * tp, first + tensor + (replica // ep + 1) * ep * tp, tp),
            DP_EP: range(first + tensor + replica % ep * tp, first + tp * dp, ep * tp),
        }[group]
        return f"{group} of rank {ranks[0]}", tuple(ranks)


class _Rank:
    """One rank's way through the layers. Every node waits for `self._last` and what a method is given."""

    def __init__(self, builder: GraphBuilder, table: LayerTable, groups: _Groups, rank: int, gathers_whole: bool):
        self._builder, self._table, self._groups, self._rank = builder, table, groups, rank
        self._gathers_whole = gathers_whole
        self._next, self._last = 0, -1

    def run(self) -> None:
        """Append all nodes."""
        layers, policy = self._table.layers, self._table.policy
        if policy == "MICRO":
            for layer in layers:
                self._wait(self._collective(layer, layer.weight_gradient, DP))
        elif policy == "HYBRID_DLRM":
            self._dlrm()
        else:
            for layer in layers:
                self._forward(layer)
            self._data_backward() if policy == "DATA" else self._hybrid_backward()
        if self._next == 0:
            self._node("nothing", NOTHING)

    def _node(self, name: str, kind: int, **values: int) -> int:
        after = [self._last] if self._last >= 0 else []
        self._builder.add(TraceNode(self._next, kind, name=name, after=after, **values))
        self._next += 1
        return self._next - 1

    def _compute(self, name: str, time_ns: int) -> None:
        if time_ns:
            self._last = self._node(name, COMPUTE, duration_ps=time_ns * PS_PER_NS)

    def _collective(self, layer: Layer, part: Pass, group: str) -> int:
        """Issue a pass's collective; the node at whose end its update is over, -1 if there is nothing to do."""
        if part.operation == NONE:
            return -1
        name, ranks = self._groups.members(part.group or group, self._rank)
        if len(ranks) == 1:
            return -1
        is_shard = part.operation == ALL_GATHER and not self._gathers_whole
        node = self._node(
            layer.name, COLLECTIVE, operation=part.operation, root=ranks[0],
            size_bytes=part.size_bytes * (len(ranks) if is_shard else 1),
            communicator=self._builder.communicator(name, ranks),
        )  # fmt: skip
        if layer.update_ns:
            self._builder.add(
                TraceNode(
                    self._next,
                    NOTHING,
                    name=f"{layer.name} update",
                    duration_ps=layer.update_ns * PS_PER_NS,
                    after=[node],
                )
            )
            self._next += 1
        return self._next - 1

    def _wait(self, *nodes: int) -> None:
        """What follows waits for these, too."""
        after = [node for node in (*nodes, self._last) if node >= 0]
        if len(after) == 1:
            self._last = after[0]
        elif after:
            self._builder.add(TraceNode(self._next, NOTHING, name="join", after=after))
            self._last, self._next = self._next, self._next + 1

    def _forward(self, layer: Layer) -> None:
        self._compute(layer.name, layer.forward.compute_ns)
        issued = self._collective(layer, layer.forward, TP)
        if issued >= 0:
            self._last = issued

    def _weight_gradient(self, layer: Layer) -> None:
        self._compute(f"{layer.name} weight gradient", layer.weight_gradient.compute_ns)
        self._collective(layer, layer.weight_gradient, DP)

    def _data_backward(self) -> None:
        layers = self._table.layers
        for i in reversed(range(len(layers))):
            self._weight_gradient(layers[i])
            if i > 0:
                self._compute(f"{layers[i].name} input gradient", layers[i].input_gradient.compute_ns)

    def _hybrid_backward(self) -> None:
        layers = self._table.layers
        is_start = set(self._indices("checkpoints"))
        initiates = set(self._indices("checkpoint_initiates"))
        for i in reversed(range(len(layers))):
            if i in initiates:
                first = max((k for k in is_start if k <= i), default=i)
                for k in range(first, i):
                    self._forward(layers[k])
            self._compute(f"{layers[i].name} input gradient", layers[i].input_gradient.compute_ns)
            issued = self._collective(layers[i], layers[i].input_gradient, TP)
            self._weight_gradient(layers[i])
            if issued >= 0:
                self._wait(issued)

    def _indices(self, key: str) -> list[int]:
        """The layers of a list `key: n i i ...` of the first line."""
        numbers = self._table.numbers.get(key) or [0]
        n_layer = len(self._table.layers)
        if numbers[0] != len(numbers) - 1 or any(not 0 <= i < n_layer for i in numbers[1:]):
            found = f"{key}: {' '.join(map(str, numbers))}"
            raise ConfigError(f"{self._table.path}, line 1", found, f"a count, then as many layers 0..{n_layer - 1}")
        return numbers[1:]

    def _dlrm(self) -> None:
        layers, numbers = self._table.layers, self._table.numbers[""]
        last_bottom = numbers[0] if numbers else 0
        issued = -1
        for i, layer in enumerate(layers):
            self._compute(layer.name, layer.forward.compute_ns)
            found = self._collective(layer, layer.forward, TP)
            if i == 0:
                issued = found
            elif found >= 0:
                self._last = found
            if i == last_bottom and issued >= 0:
                self._wait(issued)
        gradient = -1
        for i in reversed(range(len(layers))):
            if i == 0 and gradient >= 0:
                self._wait(gradient)
            self._weight_gradient(layers[i])
            if i > 0:
                self._compute(f"{layers[i].name} input gradient", layers[i].input_gradient.compute_ns)
            if i == last_bottom + 1:
                gradient = self._collective(layers[0], layers[0].input_gradient, TP)
