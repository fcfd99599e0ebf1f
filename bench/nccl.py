"""Collectives beside measured ones: `python bench/nccl.py --rows nccl_collectives.csv [--deepep FILE.csv]`.

Each cluster is a config as a user would write it, with its collectives one after the other; their times are those of
the tasks in the results. A row is fitted if constants of the simulator were fitted to it or to others of its cluster
(`nccl_cases.FITTED`, all-reduces over eight GPUs); the others are predictions. Errors count from 1 MB up: time
simulated over time measured - 1.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from nccl_cases import MIB, Case, Cluster, Exchange, read_cases, read_exchanges

import plots
from runs import Finished, simulate_once

LEAST_BYTES = 10**6  # "from 1 MB up"


def config_text(cluster: Cluster, jobs: list[tuple[str, int]]) -> str:
    """Collectives (operation, bytes) of a cluster, one after the other."""
    options = "\n".join(f"{key} = {value}" for key, value in cluster.options)
    text = f"""[topology]
kind = "roft"
gpus = {cluster.n_server * cluster.per_server}
gpus_per_server = {cluster.per_server}
nic_rate = "{cluster.nic_gbps}Gbps"

[network]
payload = "4096B"

[workload]
kind = "collectives"
gpu = "{cluster.gpu}"
transport = "{cluster.transport}"
"""
    for i, (operation, size_bytes) in enumerate(jobs):
        text += f'\n[[workload.collective]]\nname = "c{i}"\noperation = "{operation}"\nsize = "{size_bytes}B"\n'
        text += f'after = ["c{i - 1}"]\n' if i else ""
        text += f"{options}\n" if options else ""
    return text


def times_us(finished: Finished, n_job: int) -> list[float]:
    """Time of each collective: from the end of the one before it to its own end, on the slowest GPU."""
    table = pq.read_table(finished.folder / "tasks.parquet", columns=["stream", "end_ps"])
    tasks = list(zip(table["stream"].to_pylist(), table["end_ps"].to_pylist(), strict=True))
    ends = [0]
    for i in range(n_job):
        ends.append(max(end for name, end in tasks if name == f"c{i}"))
    return [(after - before) / 1e6 for before, after in zip(ends, ends[1:], strict=False)]


def simulated_us(out: Path, name: str, cluster: Cluster, jobs: list[tuple[str, int]], fresh: bool) -> list[float]:
    """Times of collectives on a cluster, by a run of pdes-sim."""
    config = out / "configs" / f"{name}.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(config_text(cluster, jobs))
    return times_us(simulate_once(config, [], out, fresh=fresh), len(jobs))


def run_cases(cases: list[Case], out: Path, fresh: bool) -> list[tuple[Case, float]]:
    """(case, simulated us), one run for each cluster and dataset."""
    groups: dict[tuple[str, Cluster], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.dataset, case.cluster), []).append(case)
    found = []
    for i, ((dataset, cluster), group) in enumerate(groups.items()):
        jobs = [(case.operation, case.size_bytes) for case in group]
        times = simulated_us(out, f"{dataset}-{i}", cluster, jobs, fresh)
        found += list(zip(group, times, strict=True))
    return found


def measured_us(case: Case) -> float:
    """Time of a row; of a row that states only its bus bandwidth, from that."""
    return case.time_us or case.size_bytes * case.bus_factor / case.busbw_gb_per_s / 1e3


def print_table(found: list[tuple[Case, float]]) -> None:
    print(
        f"{'dataset':22} {'operation':15} {'GPUs':>6} {'how':12} {'bytes':>12} {'measured':>16} {'simulated':>16} error"
    )
    for case, time_us in found:
        c = case.cluster
        rates = [case.size_bytes * case.bus_factor / t / 1e3 for t in (measured_us(case), time_us)]
        how = dict(c.options).get("algorithm", "auto").strip('"')
        print(
            f"{case.dataset:22} {case.operation:15} {c.n_server}x{c.per_server:<4} {how:12} {case.size_bytes:>12} "
            f"{measured_us(case):9.1f}us{rates[0]:6.1f} {time_us:9.1f}us{rates[1]:6.1f} {error(case, time_us):+6.1%}"
            f"{'' if case.is_fitted else '  predicted'}"
        )


def error(case: Case, time_us: float) -> float:
    return time_us / measured_us(case) - 1


def summary(found: list[tuple[Case, float]]) -> dict:
    """Rows from 1 MB up: how many, mean and largest error, how many within 10 %; fitted and predicted ones."""
    out: dict = {}
    large = [(case, time_us) for case, time_us in found if case.size_bytes >= LEAST_BYTES]
    for name, rows in (
        ("all", large),
        ("fitted", [row for row in large if row[0].is_fitted]),
        ("predicted", [row for row in large if not row[0].is_fitted]),
    ):
        errors = [abs(error(*row)) for row in rows]
        if errors:
            out[name] = {
                "rows": len(errors), "mean_error": round(float(np.mean(errors)), 4),
                "max_error": round(max(errors), 4), "within_10_percent": sum(e <= 0.1 for e in errors),
            }  # fmt: skip
    out["beyond_10_percent"] = [f"{c.dataset} {c.size_bytes}" for c, t in large if abs(error(c, t)) > 0.1]
    return out


def draw(found: list[tuple[Case, float]], path: Path) -> None:
    """Bus bandwidth over size, measured and simulated, for every dataset of several sizes."""
    by_set: dict[str, list[tuple[Case, float]]] = {}
    for case, time_us in found:
        by_set.setdefault(case.dataset, []).append((case, time_us))
    panels = {}
    for name, rows in by_set.items():
        if len({case.size_bytes for case, _ in rows}) > 4:
            x = [np.log2(case.size_bytes) for case, _ in rows]
            rate = [case.size_bytes * case.bus_factor / 1e3 for case, _ in rows]
            panels[name] = {
                "simulated": (x, [r / t for r, (_, t) in zip(rate, rows, strict=True)]),
                "measured": (x, [r / measured_us(case) for r, (case, _) in zip(rate, rows, strict=True)]),
            }
    plots.draw(path, "All-reduce", panels, "log2 of the bytes", "bus bandwidth, GB/s", points=("measured",))


def run_exchanges(exchanges: Iterable[Exchange], out: Path, fresh: bool) -> list[float]:
    """DeepEP's rows; errors in the order of the file."""
    errors = []
    print(f"\n{'DeepEP on H800, 400 Gbps':48} {'bytes':>10} {'measured':>20} {'simulated':>20} error")
    for x in exchanges:
        name = x.name.replace(" ", "-").replace("(", "").replace(")", "").replace("+", "-")
        time_us = simulated_us(out, f"deepep-{name}", x.cluster, [("all-to-all", x.size_bytes)], fresh)[0]
        rate = x.size_bytes / time_us / 1e3
        errors.append(time_us / x.time_us - 1 if x.time_us else x.gb_per_s / rate - 1)
        print(
            f"{x.name:48} {x.size_bytes:>10} {x.time_us or float('nan'):9.0f}us{x.gb_per_s:6.1f}GB/s "
            f"{time_us:9.0f}us{rate:6.1f}GB/s {errors[-1]:+6.1%}"
        )
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=Path, required=True, help="measured collectives, as nccl_collectives.csv has them"
    )
    parser.add_argument("--deepep", type=Path, help="measured exchanges, as moe_alltoall_deepep.csv has them")
    parser.add_argument("--out", type=Path, default=Path("results/nccl"))
    parser.add_argument("--datasets", nargs="+", default=[], help="only these")
    parser.add_argument("--quick", action="store_true", help="between servers only up to 256 MiB")
    parser.add_argument("--fresh", action="store_true", help="run again what is there")
    args = parser.parse_args()
    cases, left_out = read_cases(args.rows)
    if args.datasets:
        cases = [case for case in cases if case.dataset in args.datasets]
    if args.quick:
        cases = [case for case in cases if case.cluster.n_server == 1 or case.size_bytes <= 256 * MIB]
    found = run_cases(cases, args.out, args.fresh)
    print_table(found)
    for name, reason in left_out.items():
        print(f"not covered: {name}: {reason}")
    draw(found, args.out / "nccl.png")
    line: dict = {"bench": "nccl", **summary(found), "not_covered": left_out}
    if args.deepep:
        errors = run_exchanges(read_exchanges(args.deepep), args.out, args.fresh)
        line["deepep"] = {"rows": len(errors), "mean_error": round(float(np.mean(np.abs(errors))), 4)}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
