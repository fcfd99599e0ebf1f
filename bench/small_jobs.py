"""Small training jobs drawn at random, packet by packet and fast-forwarded: does each come to its end, and how far off?

    python bench/small_jobs.py [--runs N] [--seed S] [--beyond PERCENT] [--law NAME]

Four to 32 GPUs, in servers of one to eight. Layouts, what is overlapped, stages that wait, copy engines, collectives,
controls and rates are drawn; tensor parallelism may cross servers, which no large job does and which has flow level
carry short messages of many kinds. A line per job whose iteration is off by more than --beyond, or that has failed
(what a config refuses is drawn again); a table by control at the end.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import pdes
from pdes.errors import ConfigError, SimError

LAWS = ("dctcp", "hpcc", "dcqcn", "swift", "timely")
MODES = ("off", "auto")


def fabric(draw: random.Random, n_gpu: int) -> dict[str, Any]:
    """Rails of so many GPUs."""
    rate = draw.choice(["50Gbps", "200Gbps", "400Gbps"])
    return {
        "kind": "roft", "gpus": n_gpu, "nic_rate": rate, "spine_rate": rate,
        "gpus_per_server": draw.choice([n for n in (1, 2, 4, 8) if n_gpu % n == 0]),
        "servers_per_rail_switch": draw.choice([1, 2, 4]), "oversubscription": draw.choice([1.0, 1.0, 2.0]),
        "nvlink": draw.choice(["none", "packets"]),
    }  # fmt: skip


def job(draw: random.Random, tp: int, pp: int, dp: int) -> dict[str, Any]:
    """A job over tp x pp x dp GPUs."""
    vpp, has_tp = draw.choice([1, 2, 3]) if pp > 1 else 1, tp > 1
    constants = draw.choice([{}, {"gemm_loss": 0.1, "memory_loss": 0.7}])
    device = ({"constants": constants} if constants else {}) | draw.choice([{}, {}, {"copy_engines": 1}])
    return {
        "kind": "training", "microbatches": pp * draw.choice([1, 2, 3]), "microbatch": draw.choice([1, 2]),
        "zero": draw.choice([0, 1, 2, 3]), "overlap_pipeline": draw.random() < 0.5,
        "sequence_parallel": has_tp and draw.random() < 0.5, "overlap_tensor": has_tp and draw.random() < 0.4,
        "overlap_gradients": draw.random() < 0.8, "compute": {"gpu": "h100"}, "memory": {"check": "off"},
        "model": {
            "layers": pp * vpp * draw.choice([1, 2]), "hidden": draw.choice([512, 1024, 2048]), "heads": 8,
            "sequence": draw.choice([512, 2048]), "vocabulary": 8192, "tied_embeddings": draw.random() < 0.5,
        },
        "parallel": {"tp": tp, "dp": dp, "pp": pp, "vpp": vpp}, **({"devices": {"h100": device}} if device else {}),
        "nccl": {"all-reduce": {"algorithm": draw.choice(["auto", "sharp", "tree", "ring"])}},
    }  # fmt: skip


def drawn(seed: int, law: str = "") -> dict[str, Any]:
    """Tables of one config."""
    draw = random.Random(seed)
    tp, pp, dp = draw.choice([1, 2, 4]), draw.choice([1, 2, 4]), draw.choice([1, 2, 4])
    while not 4 <= tp * pp * dp <= 32:
        tp, pp, dp = draw.choice([1, 2, 4]), draw.choice([1, 2, 4]), draw.choice([1, 2, 4])
    return {
        "topology": fabric(draw, tp * pp * dp),
        "network": {"congestion_control": law or draw.choice(LAWS), "payload": "4096B"},
        "workload": job(draw, tp, pp, dp), "output": {"tasks": False, "flows": False},
    }  # fmt: skip


def times_ps(tables: dict[str, Any], folder: Path) -> list[int]:
    """The iteration in each mode. SimError if one does not come to its end, ConfigError if it is refused."""
    return [
        pdes.simulate(tables | {"wormhole": {"mode": mode}}, folder).summary["iteration_time_ps"][-1] for mode in MODES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="jobs")
    parser.add_argument("--seed", type=int, default=1, help="of the first job; the others follow")
    parser.add_argument("--beyond", type=float, default=5.0, help="percent; jobs that are further off have a line")
    parser.add_argument("--law", default="", choices=("", *LAWS), help="this control alone")
    arguments = parser.parse_args()
    errors: dict[str, list[float]] = {}
    failed, refused, seed = [], 0, arguments.seed
    with tempfile.TemporaryDirectory() as folder:
        while sum(map(len, errors.values())) + len(failed) < arguments.runs:
            tables, seed = drawn(seed, arguments.law), seed + 1
            law = tables["network"]["congestion_control"]
            try:
                full_ps, auto_ps = times_ps(tables, Path(folder) / "out")
            except ConfigError:
                refused += 1
                continue
            except SimError as error:
                failed.append(seed - 1)
                print(f"seed {seed - 1}, {law}: failed: {error}", flush=True)
                continue
            errors.setdefault(law, []).append(100 * (auto_ps / full_ps - 1))
            if abs(errors[law][-1]) > arguments.beyond:
                print(f"seed {seed - 1}, {law}: {errors[law][-1]:+.2f} %, {tables['workload']['parallel']}", flush=True)
    print("control  jobs  mean  within 1 %  worst")
    for law, found in sorted(errors.items()):
        size = np.abs(found)
        worst = found[int(size.argmax())]
        print(f"{law:7}  {len(found):4}  {size.mean():3.1f} %  {100 * (size <= 1).mean():8.0f} %  {worst:+.1f} %")
    facts = {law: {"jobs": len(found), "mean": float(np.abs(found).mean())} for law, found in errors.items()}
    print(json.dumps({"bench": "small_jobs", "failed": failed, "refused": refused, "by_control": facts}))


if __name__ == "__main__":
    main()
