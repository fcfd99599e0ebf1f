"""What the backward pass of a layer computes again, by modules: Megatron-Core's `--recompute-modules`, XLA's policies.

A module's operators run again before the backward pass, and what lies between them is not kept. Megatron-Core keeps
what core attention, a network or experts hand on, and of the others drops that, too (its CheckpointWithoutOutput).
XLA drops all that a policy does not name, and what nothing needs is not computed again: the last matrix of a layer.
So MaxText's "full" is qkv, layernorm, attention and mlp_up, its "save_qkv_proj" the same without qkv.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from models.compute.operators import Operator, Tensor

RecomputeWord = Literal["none", "selective", "full"]
RecomputeModule = Literal[
    "layernorm", "qkv", "mla_up_proj", "core_attn", "attention", "mlp_up", "mlp", "moe_act", "moe", "shared_experts",
]  # fmt: skip
Recompute = RecomputeWord | tuple[RecomputeModule, ...]
RECOMPUTE_MODULES: tuple[RecomputeModule, ...] = get_args(RecomputeModule)


@dataclass(frozen=True)
class _Module:
    """operators: names of those that run again; core: all of core attention, too. dropped: tensors not kept."""

    operators: frozenset[str]
    dropped: frozenset[str]
    core: bool = False


def _inputs(*names: str) -> frozenset[str]:
    return frozenset(f"{name} input" for name in names)


_QUERIES = frozenset({"queries", "keys", "values"})
_SHARED = frozenset({"shared up", "shared activation", "shared down"})
_ROUTED = frozenset({"router", "routing", "dispatch", "experts up", "experts activation", "experts down", "combine"})
_MODULES: dict[str, _Module] = {
    "layernorm": _Module(
        frozenset({"attention norm", "mlp norm"}),
        _inputs("query key value", "latent down", "up", "router", "shared up"),
    ),
    "qkv": _Module(
        frozenset({"query key value", "query key norm", "rotary positions"}), _QUERIES | _inputs("query key norm")
    ),
    "mla_up_proj": _Module(frozenset({"query up", "key value up", "rotary positions"}), _QUERIES),
    "core_attn": _Module(frozenset(), frozenset({"softmax sums"}), core=True),
    "attention": _Module(
        frozenset({"output projection", "attention sum"}),
        frozenset({"softmax sums", "attention sum mask"}) | _inputs("output projection", "mlp norm"),
        core=True,
    ),
    "mlp_up": _Module(frozenset({"up", "activation"}), _inputs("activation", "down")),
    "mlp": _Module(frozenset({"up", "activation", "down"}), _inputs("activation", "down")),
    "moe_act": _Module(frozenset({"experts activation"}), _inputs("experts down")),
    "moe": _Module(
        _ROUTED | _SHARED,
        frozenset({"routing"}) | _inputs(*_ROUTED - {"router"}) | _inputs(*_SHARED),
    ),
    "shared_experts": _Module(_SHARED, _inputs("shared activation", "shared down")),
}  # fmt: skip


def runs_again(graph: tuple[Operator, ...], recompute: Recompute) -> Iterator[Operator]:
    """Operators of a layer that run again before its backward pass, in order."""
    if recompute == "full":
        yield from graph
    elif recompute == "selective":
        if any(tensor.core for operator in graph for tensor in operator.saved):  # FlashAttention keeps no such thing
            yield from (operator for operator in graph if operator.core)
    elif not isinstance(recompute, str):
        modules = [_MODULES[name] for name in recompute]
        names, core = frozenset().union(*(m.operators for m in modules)), any(m.core for m in modules)
        yield from (operator for operator in graph if operator.name in names or (core and operator.core))


def kept(graph: tuple[Operator, ...], recompute: Recompute) -> Iterator[Tensor]:
    """Tensors that are there from the forward to the backward pass; of "full", the layer's input."""
    if recompute == "full":
        yield graph[0].saved[0]
        return
    modules = [] if isinstance(recompute, str) else [_MODULES[name] for name in recompute]
    dropped = frozenset().union(*(module.dropped for module in modules))
    drops_core = recompute == "selective" or any(module.core for module in modules)
    for operator in graph:
        yield from (x for x in operator.saved if x.name not in dropped and not (drops_core and x.core))


def modules_of(graph: tuple[Operator, ...]) -> set[str]:
    """Names of the modules that a layer has."""
    names, core = {operator.name for operator in graph}, any(operator.core for operator in graph)
    required = {"mla_up_proj": "query up", "qkv": "query key value"}
    return {
        name
        for name, module in _MODULES.items()
        if (required[name] in names if name in required else bool(module.operators & names) or (module.core and core))
    }
