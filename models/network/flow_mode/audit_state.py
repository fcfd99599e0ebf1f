"""What an audit of flow mode keeps: what would have been said of messages that are simulated, and how these went. The
same on every rank. See `audit`."""

from typing import Any, NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.flow_mode.saved import load_flow, save_flow
from models.network.flow_mode.state import N_AS_PACKETS, FlowMode, Hybrid
from models.network.state.records import GOES_AS_PACKETS, WANTS_PACKETS, Fabric, Nic
from models.workload.program import Work
from pdes.engine.jit import aligned_zeros, record
from pdes.random_plain import PURPOSE_AUDIT, uniform_plain
from pdes.skipping.kind_errors import KindErrors

SHORT_OF_FOLLOWED = 10
UNKNOWN_PS, NOBODY = -1, -1
FOLLOWED = record(  # a message that is compared
    [
        ("flow_id", np.int64),
        ("end_byte", np.int64),  # in its queue pair's stream
        ("posted_ps", np.int64),
        ("over_ps", np.int64),  # when its packets were acknowledged, and
        ("ended_ps", np.int64),  # would have been; UNKNOWN_PS
        ("unit", np.int32),  # the stretch in which it was posted
        ("next", np.int32),  # row of the queue pair's next one
    ]
)
# Where the run is, words[PHASE]: nothing is simulated; what was under way when a stretch began goes on beside what is
# posted; all that is posted is compared; and what was is waited for.
AT_RATES, WARM, MEASURED, DRAINED = range(4)
# Words.
(
    PHASE,
    STRETCH,  # number of the one that is under way, or of the next where one is waited for
    BEGIN_PS,  # when something was posted in it first, UNKNOWN_PS: not yet
    LONGEST_PS,  # that any message has taken so far, as far as that is known
    DRAWN_PS,  # when the stretch, or the first of those in a row, was drawn
    N_OLD,  # queue pairs that have messages under way from before,
    N_OLD_PREDICTED,  # and such messages that have not ended as they would have
    N_FOLLOWED,
    N_OPEN,  # of these, not over or not ended
    N_DRAWN,  # stretches that were drawn
    SEED,
) = range(11)
N_AUDIT_WORD = 11


class Audit(NamedTuple):
    """One rank's."""

    predicted: FlowMode  # of what is posted while a stretch is drawn, from what was under way before
    followed: np.ndarray  # FOLLOWED[], words[N_FOLLOWED] of them
    first_over: np.ndarray  # int32[n_qp]  the queue pair's first one that is not over,
    first_ended: np.ndarray  # int32[n_qp]  that has not ended,
    last: np.ndarray  # int32[n_qp]  and the last of all, NOBODY
    posted_end: np.ndarray  # int64[n_qp]  end of the stream that is known
    old_end: np.ndarray  # int64[n_qp]  of what was under way when the stretch began, 0: nothing is any more
    share: np.ndarray  # float64[1]  of stretches that are drawn
    words: np.ndarray  # int64[N_AUDIT_WORD]


class AuditedNetwork(NamedTuple):
    """What rounds are about; whatever goes on without an audit finds its part by its name."""

    fabric: Fabric
    nic: Nic
    work: Work
    network: NetworkState
    audit: Audit


def make_audit(flow: FlowMode, share: float, seed: int) -> Audit:
    """Nothing is posted. flow: of the run; where the first stretch is drawn its queue pairs begin with packets."""
    n_pair, words = len(flow.transfers), np.zeros(N_AUDIT_WORD, np.int64)
    words[BEGIN_PS], words[SEED] = UNKNOWN_PS, seed
    if uniform_plain(seed, 0, PURPOSE_AUDIT, 0) < share:
        words[PHASE], words[N_DRAWN] = MEASURED, 1
        flow.hybrid.goes[:] = GOES_AS_PACKETS | WANTS_PACKETS
    first_over, first_ended, last = (np.full(n_pair, NOBODY, np.int32) for _ in range(3))
    posted_end, old_end = (np.zeros(n_pair, np.int64) for _ in range(2))
    followed, shares = np.zeros(1024, FOLLOWED), np.array([share])
    return Audit(_beside(flow), followed, first_over, first_ended, last, posted_end, old_end, shares, words)


def _beside(flow: FlowMode) -> FlowMode:
    """One of the same network, in which nothing is posted yet, and of which no host hears."""
    m, n_pair = flow.max_min, len(flow.transfers)
    tables = {name: _copied(getattr(m, name)) for name in ("flows", "ports", "places", "contention", "offers")}
    arrays = {name: array.copy() for name, array in m._asdict().items() if name not in tables}
    own, transfers = m._replace(**(tables | arrays | {"ended_back": np.zeros(0)})), _copied(flow.transfers)
    transfers["data_link"] = transfers["ack_link"] = NOBODY
    none = np.zeros(0, np.int64)
    return flow._replace(
        max_min=own, transfers=transfers, waiting=flow.waiting.copy(), starts=flow.starts.copy(),
        found=np.zeros_like(flow.found), due=np.zeros_like(flow.due), sent_bytes=np.zeros_like(flow.sent_bytes),
        posts=none, own=none, order=none, ended=np.zeros((n_pair, 4), np.int64),
        hybrid=Hybrid(*(array[:0].copy() for array in flow.hybrid)), numbers=flow.numbers.copy(),
        words=flow.words.copy(),
    )  # fmt: skip


def _copied(table: np.ndarray) -> np.ndarray:
    copy = aligned_zeros(len(table), table.dtype)
    copy[:] = table
    return copy


def network_of(state: NetworkState, audit: Audit) -> AuditedNetwork:
    """For the kernels."""
    return AuditedNetwork(state.fabric, state.nic, state.work, state, audit)


def grow_followed(audit: Audit, n_row: int) -> Audit:
    """The same with room for n_row messages that are compared."""
    followed = np.zeros(n_row, FOLLOWED)
    followed[: len(audit.followed)] = audit.followed
    return audit._replace(followed=followed)


OF_AUDIT = ("first_over", "first_ended", "last", "posted_end", "old_end", "words")


def save_audit(audit: Audit) -> dict[str, Any]:
    """Copies of it, at a round's end."""
    found = {name: getattr(audit, name).copy() for name in OF_AUDIT}
    followed = audit.followed.view(np.ndarray)[: audit.words[N_FOLLOWED]].copy()
    return found | {"followed": followed, "predicted": save_flow(audit.predicted)}


def load_audit(audit: Audit, saved: dict[str, Any]) -> Audit:
    """Take up what was saved in one that was made of the same scenario."""
    for name in OF_AUDIT:
        getattr(audit, name)[:] = saved[name]
    grown = grow_followed(audit, max(len(audit.followed), 2 * len(saved["followed"])))
    grown.followed[: len(saved["followed"])] = saved["followed"]
    return grown._replace(predicted=load_flow(audit.predicted, saved["predicted"]))


def audit_facts(audit: Audit, flow: FlowMode) -> dict[str, Any]:
    """What `result.json` says of it, the same on every rank, once all that is followed has ended. flow: of the run."""
    rows = audit.followed[: audit.words[N_FOLLOWED]]
    rows = rows[(rows["over_ps"] >= 0) & (rows["ended_ps"] >= 0)]
    took_ps, expected_ps = rows["over_ps"] - rows["posted_ps"], rows["ended_ps"] - rows["posted_ps"]
    errors = KindErrors()
    for unit in np.unique(rows["unit"]).tolist():
        mine = rows["unit"] == unit
        errors.add(expected_ps[mine], took_ps[mine], np.zeros(int(mine.sum()), np.int64), unit)
    errors.n_audited = int(flow.words[N_AS_PACKETS])
    errors.n_void = errors.n_audited - len(rows)
    words = audit.words
    counts = {"stretches": int(words[STRETCH]) + 1, "stretches_audited": int(words[N_DRAWN])}
    return {"share": float(audit.share[0]), **counts, "flow_mode": errors.facts()}
