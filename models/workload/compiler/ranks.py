"""Where the ranks of a job are, and who communicates with whom.

Ranks are numbered tensor first, then context, data and pipeline (Megatron-LM's tp-cp-dp-pp). Experts: a stage's ranks
in their order, ETP in a row share each expert's matrices, EP such groups in a row a layer's experts, and every
(ETP x EP)-th rank holds the same (Megatron-Core's etp-ep-dp-pp). With unequal tensor-parallel sizes a stage of a
replica has its own number of ranks. `gpu_of_rank` says which GPU a rank is on.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from models.compute.layout import Layout

Groups = list[tuple[int, ...]]


class Ranks:
    """The GPUs of a layout's groups, stage by stage."""

    def __init__(self, layout: Layout, gpu_of_rank: Sequence[int] | None = None) -> None:
        self.layout = layout
        self.gpu_of_rank = list(range(layout.n_gpu)) if gpu_of_rank is None else list(gpu_of_rank)
        self.per_stage = layout.tp * layout.cp * layout.dp  # with equal sizes
        self._sizes = layout.stage_tp or ((layout.tp * layout.cp,) * layout.dp,) * layout.pp
        self._first = [0, *accumulate(map(sum, self._sizes))]

    def stage(self, stage: int) -> tuple[int, ...]:
        """GPUs of a stage, by rank."""
        return tuple(self.gpu_of_rank[self._first[stage] : self._first[stage + 1]])

    def replicas(self, stage: int) -> Groups:
        """The same by replica."""
        bounds = [self._first[stage] + n for n in (0, *accumulate(self._sizes[stage]))]
        return [tuple(self.gpu_of_rank[a:b]) for a, b in pairwise(bounds)]

    def alike(self, stage: int) -> tuple[int, ...]:
        """GPUs that run the programs of a stage: its own, and with a dual pipeline those of its mirror image."""
        return self.stage(stage) + (self.stage(self.layout.pp - 1 - stage) if self.layout.dual else ())

    def tensor(self, stage: int) -> Groups:
        """GPUs that share each layer's matrices."""
        if self.layout.stage_tp:
            return self.replicas(stage)
        gpus, tp = self.alike(stage), self.layout.tp
        return [gpus[i : i + tp] for i in range(0, len(gpus), tp)]

    def context(self, stage: int) -> Groups:
        """GPUs that share sequences."""
        gpus, tp, cp = self.alike(stage), self.layout.tp, self.layout.cp
        return [gpus[i + t : i + tp * cp : tp] for i in range(0, len(gpus), tp * cp) for t in range(tp)]

    def sharers(self, stage: int) -> Groups:
        """GPUs that hold the same parameters besides experts: over data and context parallelism."""
        gpus, tp = self.alike(stage), self.layout.tp
        return [gpus[t::tp] for t in range(tp)]

    def shards(self, stage: int) -> Groups:
        """GPUs over which what these hold is split: sharers in a row."""
        n = self.layout.n_shard
        return [group[i : i + n] for group in self.sharers(stage) for i in range(0, len(group), n)]

    def copies(self, stage: int) -> Groups:
        """GPUs with the same share."""
        n = self.layout.n_shard
        return [group[i::n] for group in self.sharers(stage) for i in range(n)]

    def experts(self, stage: int) -> Groups:
        """GPUs that share a layer's experts, and exchange tokens."""
        gpus, etp, n = self.alike(stage), self.layout.etp, self.layout.etp * self.layout.ep
        return [gpus[i + t : i + n : etp] for i in range(0, len(gpus), n) for t in range(etp)]

    def expert_shares(self, stage: int) -> Groups:
        """GPUs that share each expert's matrices."""
        gpus, etp = self.alike(stage), self.layout.etp
        return [gpus[i : i + etp] for i in range(0, len(gpus), etp)]

    def expert_sharers(self, stage: int) -> Groups:
        """GPUs that hold the same experts, or the same share of them."""
        gpus, n = self.alike(stage), self.layout.etp * self.layout.ep
        return [gpus[i::n] for i in range(n)]
