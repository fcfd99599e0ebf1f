"""Training jobs drawn at random, of real models on 32 to 512 GPUs, fast-forwarded: does each come to its end?

    python bench/random_jobs.py [--runs N] [--seed S] [--limit SECONDS] [--full GPUS] [--keep FOLDER]

Fabric, layout, congestion control, schedule, precision, batches, buffers, recovery and routing are drawn; the mode is
"auto". A line per job: what it is, how it ended, how long it took, and its first iteration. A traceback or a deadlock
has failed; what takes longer than --limit is slow. --keep keeps the configs of both. Jobs of at most --full GPUs are
simulated packet by packet, too, and the line says how far their fast-forwarded iterations are off.
"""

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cases import print_last
from pdes.convert.toml_text import Tables, toml_text
from runs import ROOT

SLOW = -1
LAWS = ("dctcp", "dctcp", "hpcc", "hpcc", "dcqcn", "timely", "swift", "hpcc-pint", "nscc")
PRESETS = {  # and experts of each
    "gpt-7b": 1, "gpt-22b": 1, "llama3-8b": 1, "llama3-70b": 1, "moe-8x7b": 8, "moe-8x22b": 8,
    "mixtral-8x7b": 8, "qwen3-30b-a3b": 128, "deepseek-v3": 256,
}  # fmt: skip


def _some(draw: random.Random, share: float) -> bool:
    return draw.random() < share


def fabric(draw: random.Random, n_gpu: int) -> dict[str, Any]:
    """A fabric of so many GPUs, in servers of 8."""
    rate = draw.choice(["100Gbps", "200Gbps", "400Gbps"])
    nvlink = {"gpus_per_server": 8, "nvlink": draw.choice(["none", "packets"])}
    kind = draw.choice(["roft", "roft", "leaf-spine", *["fat-tree"] * (n_gpu in (128, 256))])
    if kind == "leaf-spine":
        per_leaf = draw.choice([8, 16, 32])
        return nvlink | {
            "kind": kind, "leaves": n_gpu // per_leaf, "spines": draw.choice([2, 4, per_leaf // 2]),
            "hosts_per_leaf": per_leaf, "host_rate": rate, "spine_rate": draw.choice([rate, "400Gbps"]),
        }  # fmt: skip
    if kind == "fat-tree":
        return nvlink | {"kind": kind, "k": 8, "link_rate": rate, "oversubscription": n_gpu / 128}
    return nvlink | {
        "kind": "roft", "gpus": n_gpu, "servers_per_rail_switch": draw.choice([4, 8, 32]), "nic_rate": rate,
        "spine_rate": rate, "oversubscription": draw.choice([1.0, 1.0, 2.0]),
    }  # fmt: skip


def workload(draw: random.Random, n_gpu: int) -> dict[str, Any]:
    """A job over so many GPUs."""
    preset = draw.choice(list(PRESETS))
    tp, pp = draw.choice([1, 2, 4, 8]), draw.choice([1, 1, 2, 4, 8])
    pp = min(pp, n_gpu // tp)
    dp = n_gpu // (tp * pp)
    parallel: dict[str, Any] = {"tp": tp, "pp": pp, "dp": dp}
    if PRESETS[preset] > 1:
        parallel["ep"] = draw.choice([e for e in (1, 2, 4, 8, 16, 32) if e <= PRESETS[preset] and (tp * dp) % e == 0])
    if pp > 1 and _some(draw, 0.3):
        parallel["vpp"] = 2
    vpp, micro = parallel.get("vpp", 1), draw.choice([1, 2])
    job = {
        "kind": "training", "preset": preset, "layers": pp * vpp * draw.choice([1, 2, 4]), "parallel": parallel,
        "microbatch": micro, "global_batch": dp * micro * pp * draw.choice([1, 2, 4]), "compute": {"gpu": "h100"},
        "zero": draw.choice([0, 1, 1, 2, 3]), "recompute": draw.choice(["none", "selective", "full"]),
        "sequence_parallel": tp > 1 and _some(draw, 0.7), "overlap_gradients": _some(draw, 0.7),
        "precision": draw.choice(["bf16", "bf16", "fp8"]), "memory": {"check": "off"},
    }  # fmt: skip
    if parallel.get("ep", 1) > 1:
        job["routing_skew"] = draw.choice([0.0, 0.0, 0.3])
    if pp > 1 and vpp == 1 and _some(draw, 0.3):
        job["schedule"] = draw.choice(["gpipe", "zero-bubble-1p", "dualpipe"])
    return job


def network(draw: random.Random) -> dict[str, Any]:
    """A congestion control with its surroundings."""
    found: dict[str, Any] = {
        "congestion_control": draw.choice(LAWS), "payload": draw.choice(["1000B", "4096B"]),
    }  # fmt: skip
    if _some(draw, 0.3):
        found["buffer"] = {"size": draw.choice(["16MB", "32MB"])}
    if _some(draw, 0.2):
        found["transport"] = {"recovery": "selective-repeat", "ack_every": draw.choice([1, 4])}
        if _some(draw, 0.5):
            found["routing"] = {"policy": draw.choice(["spray", "adaptive", "flowlet"])}
    return found


def draw_job(seed: int) -> dict[str, Any]:
    """Tables of a config."""
    draw = random.Random(seed)
    n_gpu = draw.choice([32, 64, 64, 128, 128, 256, 512])
    wormhole: dict[str, Any] = {"mode": "auto", "tolerance": draw.choice([0.01, 0.01, 0.02, 0.05])}
    return {
        "topology": fabric(draw, n_gpu), "workload": workload(draw, n_gpu), "network": network(draw),
        "simulation": {"iterations": draw.choice([1, 1, 2, 3]), "seed": seed}, "wormhole": wormhole,
    }  # fmt: skip


def as_toml(seed: int, tables: dict[str, Any]) -> str:
    """A config's text, of tables of values and tables of values."""
    flat: Tables = {}
    for name, table in tables.items():
        flat[name] = {key: value for key, value in table.items() if not isinstance(value, dict)}
        flat |= {f"{name}.{key}": value for key, value in table.items() if isinstance(value, dict)}
    return toml_text(f"Drawn with seed {seed}", flat)


def run(config: Path, mode: str, out: Path, limit_s: float) -> tuple[int, float, str]:
    """(exit status, SLOW if the time was up; seconds; what it said)."""
    command = [sys.executable, "-m", "pdes", str(config), "--quiet", "--out", str(out)]
    command += ["--set", f"wormhole.mode={mode}", "--set", "output.tasks=false"]
    begin_s = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return SLOW, limit_s, ""
    return done.returncode, time.perf_counter() - begin_s, done.stderr


def iterations_ps(out: Path) -> list[int]:
    """Of a run that ended."""
    return json.loads((out / "result.json").read_text())["iteration_time_ps"]


def n_gpu(tables: dict[str, Any]) -> int:
    """GPUs of a job."""
    return math.prod(tables["workload"]["parallel"][size] for size in ("tp", "dp", "pp"))


def said(tables: dict[str, Any]) -> str:
    """A job in one line."""
    t, w, n = tables["topology"], tables["workload"], tables["network"]
    p = w["parallel"]
    sizes = " ".join(f"{k}{v}" for k, v in p.items())
    more = " ".join([n.get("routing", {}).get("policy", ""), "buffers" if "buffer" in n else "", w.get("schedule", "")])
    return f"{t['kind']:10} {w['preset']}/{w['layers']} {sizes} {n['congestion_control']} {more}"


def main() -> None:
    """Run, print a line per job and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--full", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    ended: dict[str, list[int]] = {"ended": [], "slow": [], "refused": [], "failed": []}
    off: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(args.seed, args.seed + args.runs):
            tables = draw_job(seed)
            config = folder / f"{seed}.toml"
            config.write_text(as_toml(seed, tables))
            status, took_s, text = run(config, "auto", folder / "auto", args.limit)
            how = {0: "ended", 2: "refused", SLOW: "slow"}.get(status, "failed")
            ended[how].append(seed)
            last = text.strip().splitlines()[0][:200] if status > 0 and text.strip() else ""
            if how == "ended":
                times_ps = iterations_ps(folder / "auto")
                last = f"{times_ps[0] / 1e9:.3f} ms"
                if n_gpu(tables) <= args.full:
                    done, full_s, _ = run(config, "off", folder / "off", 4 * args.limit)
                    if done == 0:
                        off[seed] = sum(times_ps) / sum(iterations_ps(folder / "off")) - 1
                        last += f", {100 * off[seed]:+.2f} % off, in full {full_s:.0f} s"
            elif how != "refused" and args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(config, args.keep)
                (args.keep / f"{seed}.log").write_text(text)
            print(f"{seed:5} {how:7} {took_s:6.1f} s  {said(tables)}: {last}", flush=True)
    print_last({how: len(seeds) for how, seeds in ended.items()} | {"failures": ended["failed"], "off": off})
    raise SystemExit(1 if ended["failed"] else 0)


if __name__ == "__main__":
    main()
