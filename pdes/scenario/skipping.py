"""What a config's mode of fast-forwarding can skip in its network, and how far off that was where it was measured."""

from typing import NamedTuple

import numpy as np

from models.network.skip.make_fast_forward import BY_PACKET, why_not
from models.network.skip.memo_states import why_no_memo
from models.network.state.parameters import SELECTIVE_REPEAT, NetworkParameters
from models.network.state.records import IS_SELECTIVE
from pdes.config import Config
from pdes.config.wormhole.table import FORECASTS
from pdes.results.flow_mode import calibration_text
from pdes.scenario.network import why_no_fluid, why_no_rates, why_no_shares

WITHOUT_CHAOS = ("dctcp", "dcqcn", "timely")
EXACT, WAVES, LONE, ALL = FORECASTS[:2], FORECASTS[:3], FORECASTS[:4], FORECASTS[:5]
CASES = ("that have their ways alone", "that share their NIC", "that share another port")  # flow_mode.state: ALONE ..
UNSURE = "the tolerance is below all errors of the control's calibration, or it has none"


class Measured(NamedTuple):
    """Errors of completion times on average, beside full runs, and times fewer packet-hops. job: what was measured."""

    job: str
    off: str
    fewer: str


MEASURED = {  # (forecasts, whether the control is HPCC) -> docs/accuracy.md, bench/accuracy_table.json; LONE: "alone"
    (EXACT, False): [Measured("dense jobs", "0", "881 to 1,566"), Measured("mixtures of experts", "0", "1.6")],
    (EXACT, True): [
        Measured("dense jobs", "0.0084 to 0.015 %", "427 to 652"),
        Measured("mixtures of experts", "0.17 to 4.8 % (chaos alone: 2.2 to 5.0 %)", "1.4 to 2.4"),
    ],
    (WAVES, False): [Measured("mixtures of experts", "0.22 to 0.53 %", "24 to 29")],
    (WAVES, True): [Measured("mixtures of experts", "2.2 to 4.9 % (chaos alone: 2.2 to 5.0 %)", "2.9 to 14.4")],
    (LONE, False): [Measured("GPT-175B", "0.43 %", "795")],
    (LONE, True): [Measured("GPT-175B", "0.65 % (chaos alone: 0.47 %)", "440")],
    (ALL, False): [Measured("mixtures of experts", "0.092 to 0.22 %", "262 to 7,758")],
    (ALL, True): [
        Measured("mixtures of experts", "2.8 % (chaos alone: 2.2 to 2.6 %)", "118 to 177"),
        Measured("GPT-175B", "0.85 % (chaos alone: 0.47 %)", "1,445"),
    ],
}


def usable(config: Config, p: NetworkParameters) -> tuple[tuple[str, ...], str]:
    """(forecasts of those that the config allows that the network lets be used, why not the others, "" if all)."""
    uses = config.wormhole.uses
    if p.is_hybrid:
        return ("fair",), "beside messages at rates nothing else is skipped"
    if why := why_not(p):
        return (), why
    whys = {"fair": why_no_rates(config, p) or UNSURE, "alone": why_no_fluid(config, p)}
    whys["shares"] = why_no_shares(config, p)
    whys["periodic"] = BY_PACKET if p.is_by_packet else ""
    whys["replay"] = whys["similar"] = whys["periodic"] or _why_no_replay(p)
    found, why_not_fair = tuple(name for name in uses if not whys.get(name, "")), whys["fair"]
    why = "; ".join(dict.fromkeys(whys[name] for name in uses if name not in found))
    return found, why_not_fair if "fair" in uses and why else why


def _why_no_replay(p: NetworkParameters) -> str:
    """See `why_no_memo`."""
    constants = np.zeros(IS_SELECTIVE + 1, np.int64)  # of them the memo asks no more, and the network is not built
    constants[IS_SELECTIVE] = p.transport is not None and p.transport.recovery == SELECTIVE_REPEAT
    return why_no_memo(p, constants)


def skipping_facts(config: Config, p: NetworkParameters) -> list[tuple[str, str]]:
    """Two facts of a plan: what is skipped, and how far off that is, as far as anybody knows."""
    w = config.wormhole
    if w.mode == "off":
        return [("skipping", 'off: every packet is simulated; [wormhole] mode = "exact", "auto" or "flow" takes less')]
    if w.mode == "flow":
        assert p.flow is not None
        how = ("how far off", calibration_text(p.flow.facts))
        rest, share = "no packet is simulated", config.wormhole.audit
        if share:
            rest = f"packets in about {100 * share:g} % of the time, to measure the error"
        return [("skipping", f"flow: {rest}; messages get max-min fair rates"), how]
    names, why = usable(config, p)
    lost = [name for name in w.uses if name not in names]
    if names == ("fair",):
        assert p.flow is not None and p.flow.trusts is not None
        cases = [case for case, is_sure in zip(CASES, p.flow.trusts, strict=True) if is_sure]
        what = f"{w.mode}: messages {' or '.join(cases)} go at max-min fair rates, all others as packets"
        return [("skipping", what), ("how far off", calibration_text(p.flow.facts))]
    if not names:
        return [("skipping", f"{w.mode}, but nothing can be skipped: {why}")]
    said = [name for name in names if name != "similar" or "shares" not in names]  # flow level comes first there
    within = f", expected within {100 * w.tolerance:g} %" if set(names) - set(EXACT) else ""
    without = f"; not {', '.join(lost)}: {why}" if lost else ""
    return [
        ("skipping", f"{w.mode}: {', '.join(said)}{within}{without}"),
        ("how far off", _how_far_off(config, p, names)),
    ]


def _how_far_off(config: Config, p: NetworkParameters, names: tuple[str, ...]) -> str:
    law, kind, w, why = p.law.name, config.workload.kind, config.wormhole, _why_no_replay(p)
    unknown = [
        *([f"with {law}"] if law not in (*WITHOUT_CHAOS, "hpcc") else []),
        *([f"with {kind} instead of training"] if kind != "training" else []),
        *([f"with the criterion {w.paper.criterion}"] if w.paper.criterion != "default" else []),
        *([f"where {why}" if why else "with so few forecasts"] if "replay" not in names else []),
    ]
    advice = "the audit of this run measures it" if w.audit else "[wormhole] audit = 0.05 measures it in this job"
    if unknown:
        return f"not measured {', '.join(unknown)}; {advice}"
    most = next(each for each in (ALL, LONE, WAVES, EXACT) if each[-1] in names)
    rows = [f"{row.off} in {row.job} ({row.fewer} times fewer packet-hops)" for row in MEASURED[most, law == "hpcc"]]
    at = " at a tolerance of 0.02" if set(names) - set(EXACT) else ""
    return f"completion times by {', '.join(rows)}, on average{at}, in jobs measured; {advice}"
