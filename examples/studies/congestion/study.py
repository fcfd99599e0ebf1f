"""Congestion on 160 hosts, replayed in flow mode: which jobs and links have it, and what remedies bring.

python examples/studies/congestion/study.py [--quick] [--out FOLDER] [--publish]
"""

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, legend_below, markdown, study

POD_HOSTS, POD_AGGREGATIONS, SIZE_BYTES, LINK_BPS = 32, 16, 256_000_000, 400e9
WIRE = 4144 / 4096  # bytes of a full packet over its payload
ARRIVAL_MS = 60  # of the experts
CONGESTED = 0.9  # a job is, while its hosts use less than this part of their links
HOT_BYTES = 100_000  # waiting before a port, with packets
N_COLLECTIVE = {"pod": 22, "dense": 8, "experts": 12}  # of each job, one after the other
QUICK_COLLECTIVE, QUICK_PART = {"pod": 3, "dense": 3, "experts": 3}, 8  # sizes and times are so many times less
Tables = dict[str, Any]


class Remedy(NamedTuple):
    """What it changes in [network.routing], and where the large jobs' ranks are: as found, or by pod."""

    routing: Tables
    order: str = ""


REMEDIES = {
    "as found": Remedy({}),
    "4 queue pairs": Remedy({"queue_pairs_per_flow": 4}),
    "16 queue pairs": Remedy({"queue_pairs_per_flow": 16}),
    "sprayed": Remedy({"policy": "spray"}),
    "ranks by pod": Remedy({}, "ranks"),
    "jobs by pod": Remedy({}, "jobs"),
    "jobs by pod, sprayed": Remedy({"policy": "spray"}, "jobs"),
}
QUICK = ("as found", "sprayed", "ranks by pod")
SHOWN = ("as found", "16 queue pairs", "sprayed", "ranks by pod")  # over time


class Collective(NamedTuple):
    """When one was under way, and which part of its hosts' links it had."""

    begin_ms: float
    end_ms: float
    share: float


@dataclass(frozen=True)
class Replay:
    """One run. jobs: their collectives in order; sent: bytes on the links between aggregations and spines."""

    jobs: dict[str, list[Collective]]
    sent: list[int]


def config_tables(file: str = "config.toml") -> Tables:
    """A config of the study."""
    return tomllib.loads((Path(__file__).parent / file).read_text())


def chain(one: Tables, n: int, start_ms: float, size_bytes: int) -> list[Tables]:
    """A collective so many times, each host going on as soon as it is done with the one before."""
    names = [f"{one['name']}-{i}" for i in range(n)]
    common = {**one, "size": f"{size_bytes}B"}
    first = {**common, "name": names[0], "start": f"{start_ms}ms"}
    return [first] + [{**common, "name": new, "after": [old]} for old, new in zip(names, names[1:], strict=False)]


def replay(asked: Study, name: str) -> Replay:
    """All jobs, with a remedy."""
    tables, remedy = config_tables(), REMEDIES[name]
    counts, part = (QUICK_COLLECTIVE, QUICK_PART) if asked.is_quick else (N_COLLECTIVE, 1)
    tables["network"]["routing"] |= remedy.routing
    chains = []
    for one in tables["workload"]["collective"]:
        is_late = one["name"] == "experts"
        if one["name"] != "pod" and remedy.order == "jobs":
            one["gpus"] = [POD_HOSTS * (1 + 2 * is_late) + i for i in range(2 * POD_HOSTS)]
        elif remedy.order:
            one["gpus"] = sorted(one["gpus"])
        chains += chain(one, counts[one["name"]], is_late * ARRIVAL_MS / part, SIZE_BYTES // part)
    tables["workload"]["collective"] = chains
    result = pdes.simulate(pdes.make_config(tables), asked.out / name.replace(" ", "-").replace(",", ""))
    return Replay(
        {job: collectives(result, job, n, SIZE_BYTES // part) for job, n in counts.items()}, spine_bytes(result)
    )


def collectives(result: pdes.Result, job: str, n: int, size_bytes: int) -> list[Collective]:
    """Of a job, in order: from the end of the one before, the first from its first message, to its last delivery."""
    n_host = POD_HOSTS if job == "pod" else 2 * POD_HOSTS
    bytes_sent = (1 if job == "experts" else 2) * (n_host - 1) / n_host * size_bytes * WIRE
    flows = result.flows.select(["tag", "start_ps", "delivered_ps"]).group_by("tag")
    rows = flows.aggregate([("start_ps", "min"), ("delivered_ps", "max")]).to_pylist()
    by_name = {row["tag"]: row for row in rows}
    found: list[Collective] = []
    for i in range(n):
        row = by_name[f"{job}-{i}"]
        begin_ms = found[-1].end_ms if found else row["start_ps_min"] / 1e9
        end_ms = row["delivered_ps_max"] / 1e9
        found.append(Collective(begin_ms, end_ms, bytes_sent * 8 / LINK_BPS * 1e3 / (end_ms - begin_ms)))
    return found


def spine_bytes(result: pdes.Result) -> list[int]:
    """Sent on links between spines and the aggregation switches of all pods but the first, up and down."""
    sent = []
    for row in result.ports.to_pylist():
        ends = sorted((row["node"], row["peer"]))
        if ends[1].startswith("core") and int(ends[0].removeprefix("agg")) >= POD_AGGREGATIONS:
            sent.append(row["tx_bytes"])
    return sent


def percent(shares: Sequence[float]) -> str:
    """Mean of some shares of a link."""
    return f"{mean(shares):.0%}" if shares else "-"


def make_row(name: str, run: Replay) -> Row:
    """What a remedy came to."""
    dense, experts = run.jobs["dense"], run.jobs["experts"]
    arrival_ms, over_ms = experts[0].begin_ms, experts[-1].end_ms
    beside = [one.share for one in dense if one.end_ms > arrival_ms and one.begin_ms < over_ms]
    congested_ms = [one.end_ms - one.begin_ms for job in run.jobs.values() for one in job if one.share < CONGESTED]
    return {
        "remedy": name,
        "pod": percent([one.share for one in run.jobs["pod"]]),
        "dense, alone": percent([one.share for one in dense if one.end_ms <= arrival_ms]),
        "dense, beside experts": percent(beside),
        "experts": percent([one.share for one in experts]),
        "dense done, ms": f"{dense[-1].end_ms:.0f}",
        "experts done, ms": f"{over_ms:.0f}",
        "congested, ms": f"{sum(congested_ms):.0f}",
        "busiest / mean link": f"{max(run.sent) / mean(run.sent):.2f}",
    }


def draw(asked: Study, runs: dict[str, Replay]) -> None:
    """Use of hosts' links over time, and how bytes lie on links to spines."""
    shown = [name for name in SHOWN if name in runs]

    def over_time(axes: Any) -> None:
        for axis, name in zip(axes, shown, strict=True):
            for job, found in runs[name].jobs.items():
                times = [time_ms for one in found for time_ms in (one.begin_ms, one.end_ms)]
                axis.plot(times, [100 * one.share for one in found for _ in range(2)], label=job)
            axis.axhline(100 * CONGESTED, color="C5", linestyle=":", label="congested below")
            label_panel(axis, name, "ms", "% of hosts' links")
            axis.set_ylim(0, 105)
        legend_below(axes[0])

    def links(axis: Any) -> None:
        for name, run in runs.items():
            sent = sorted(run.sent, reverse=True)
            axis.plot(range(1, len(sent) + 1), [size / mean(sent) for size in sent], label=name)
        label_panel(axis, "Links between aggregations and spines, busiest first", "link", "bytes / mean link")
        legend_below(axis)

    asked.draw("time", len(shown), over_time, height=2.8)
    asked.draw("links", 1, links, height=3.2)


def compare_with_packets(asked: Study) -> Row:
    """The dense job alone, in flow mode and with packets: links on which ways meet, and what waits before them."""
    tables = config_tables("packets.toml")
    one = tables["workload"]["collective"][0]
    one["size"] = size = "8MB" if asked.is_quick else one["size"]
    runs = {}
    for mode in ("flow", "off"):
        runs[mode] = pdes.simulate(
            pdes.make_config({**tables, "wormhole": {"mode": mode}}), asked.out / f"packets-{mode}"
        )
    by_link = zip(*(runs[mode].ports.to_pylist() for mode in ("flow", "off")), strict=True)
    up = [pair for pair in by_link if pair[0]["node"].startswith("agg") and pair[0]["peer"].startswith("core")]
    ring_bytes = 2 * 63 / 64 * int(size.removesuffix("MB")) * 1e6 * WIRE
    meet = [flow["tx_bytes"] > 1.5 * ring_bytes for flow, _ in up]
    hot = [packets["max_queue_bytes"] > HOT_BYTES for _, packets in up]
    return {
        **{f"{mode}, ms": f"{max(runs[mode].flows.column('delivered_ps').to_pylist()) / 1e9:.3f}" for mode in runs},
        "links where ways meet": sum(meet),
        "with packets waiting": sum(hot),
        "both": sum(map(all, zip(meet, hot, strict=True))),
        "pauses": runs["off"].summary["network"]["pause_frames"],
    }


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Replay as found and with each remedy, tell and draw it; the table."""
    asked = study("congestion", __doc__, arguments)
    runs = {name: replay(asked, name) for name in (QUICK if asked.is_quick else REMEDIES)}
    rows = [make_row(name, run) for name, run in runs.items()]
    asked.tell(rows)
    draw(asked, runs)
    beside = markdown([compare_with_packets(asked)])
    print(f"\nThe dense job alone, beside packets:\n\n{beside}")
    (asked.out / "congestion-packets.md").write_text(f"{beside}\n")
    return rows


if __name__ == "__main__":
    main()
