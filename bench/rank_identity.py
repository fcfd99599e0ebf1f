"""Random configs of every kind, each on 1, 2 and 3 ranks and under two placements: the tables must be the same bytes.

    python bench/rank_identity.py [--quick] [--runs N] [--seed S]

Topologies with mixed rates and delays, flow lists, random traffic, collectives and training jobs, stop times; every
congestion control, buffers with and without PFC, loss, routing policies. A config that differs is kept and named.
tests/mpi/ does the same for a few fixed cases.
"""

import argparse
import filecmp
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cases import print_last

N_HOST = 16
RATES = ("100Gbps", "40Gbps", "7Gbps", "400Gbps", "33.3Gbps")
DELAYS = ("1us", "500ns", "30ns", "2.5us", "1ns")
OPERATIONS = ("all-reduce", "all-to-all", "reduce-scatter", "all-gather")
LAYOUTS = ((4, 2, 2), (2, 4, 2), (4, 4, 1), (2, 2, 4))
LAWS = ("dctcp", "dcqcn", "hpcc", "hpcc-pint", "timely", "swift", "nscc", "fixed-window", "none")
WINDOWS = ("auto", "max-bdp", "pair-bdp", "5kB")
VARIANTS = ((1, "metis"), (2, "metis"), (2, "round-robin"), (3, "round-robin"))
COMPILED_LAYOUTS = ((2, 1, 4, 2), (1, 1, 16, 1), (2, 2, 2, 2), (1, 1, 4, 4), (4, 1, 4, 1), (2, 4, 2, 1))
FILES = ("flows.parquet", "tasks.parquet", "ports.parquet", "result.json")


def present(one: Path, other: Path) -> list[str]:
    """The files to compare; the breakdown is training jobs' alone."""
    accounts = "breakdown.parquet"
    return [*FILES, *([accounts] if (one / accounts).exists() or (other / accounts).exists() else [])]


def random_topology(rng: random.Random, kind: str) -> str:
    """A [topology] table of 16 hosts."""
    keys = {
        "fat-tree": ("link_rate", "host_rate", "link_delay", "host_delay"),
        "three-tier": ("link_rate", "host_rate", "link_delay", "host_delay"),
        "leaf-spine": ("host_rate", "spine_rate", "host_delay", "spine_delay"),
        "roft": ("nic_rate", "spine_rate", "nic_delay", "spine_delay"),
    }[kind]
    nvlink = f'nvlink = "packets"\nnvlink_delay = "{rng.choice(("25ns", "700ns"))}"\n'
    fixed = {
        "fat-tree": "k = 4\n",
        "three-tier": "pods = 2\nedges_per_pod = 2\naggregations_per_pod = 2\ncores = 4\nhosts_per_edge = 4\n",
        "leaf-spine": f"leaves = 4\nspines = {rng.choice((1, 2, 3))}\nhosts_per_leaf = 4\n",
        "roft": f"gpus = 16\ngpus_per_server = 4\n{nvlink}",
    }[kind]
    drawn = "".join(f'{key} = "{rng.choice(RATES if key.endswith("rate") else DELAYS)}"\n' for key in keys)
    return f'[topology]\nkind = "{kind}"\n{fixed}{drawn}'


def random_flows(rng: random.Random, folder: Path) -> str:
    """A [workload] table of a flow list, and its file."""
    rows = ["src,dst,size_bytes,start_ps"]
    for _ in range(rng.choice((5, 40, 300))):
        src, dst = rng.sample(range(N_HOST), 2)
        size_bytes = rng.choice((1, 999, 1000, 50_000, rng.randrange(1, 200_000)))
        rows.append(f"{src},{dst},{size_bytes},{rng.choice((0, 0, 10**6, rng.randrange(10**8)))}")
    (folder / "flows.csv").write_text("\n".join(rows) + "\n")
    pairs = rng.choice(("per-flow", "per-pair"))
    return f'[workload]\nkind = "flows"\nfile = "flows.csv"\nqueue_pairs = "{pairs}"\n'


def random_traffic(rng: random.Random) -> str:
    """A [workload] table of random traffic, sometimes with incasts."""
    text = f'[workload]\nkind = "poisson"\nsizes = "fb-hadoop"\nload = {rng.choice((0.1, 0.7))}\n'
    text += f"flows = {rng.choice((5, 40, 100))}\n"
    incast = f'[workload.incast]\nfan_in = {rng.choice((2, 15))}\nsize = "3kB"\nload = 0.1\n'
    return text + (incast if rng.random() < 0.5 else "")


def random_collectives(rng: random.Random) -> str:
    """A [workload] table of three collectives, some of them after another."""
    text = '[workload]\nkind = "collectives"\n'
    for i in range(3):
        gpus = rng.sample(range(N_HOST), rng.choice((2, 5, 16)))
        text += f'[[workload.collective]]\nname = "c{i}"\noperation = "{rng.choice(OPERATIONS)}"\n'
        text += f'size = "{rng.choice((100, 16_000, 400_000))}B"\ngpus = {gpus}\n'
        text += f'after = ["c{i - 1}"]\n' if i and rng.random() < 0.6 else ""
    return text


def random_training(rng: random.Random) -> str:
    """A [workload] table of a small training job."""
    tp, dp, pp = rng.choice(LAYOUTS)
    return (
        f'[workload]\nkind = "training"\ntp = "{rng.choice(("packets", "alpha-beta"))}"\n'
        "[workload.model]\nlayers = 4\nhidden = 256\nvocabulary = 1000\nsequence = 128\n"
        f"[workload.parallel]\ntp = {tp}\ndp = {dp}\npp = {pp}\n"
    )


def random_compiled(rng: random.Random) -> str:
    """A [workload] table of a small training job that is compiled kernel by kernel, with experts or without."""
    tp, cp, dp, pp = rng.choice(COMPILED_LAYOUTS)
    experts = rng.choice((1, 4)) if cp * dp * tp >= 4 else 1
    vpp = rng.choice((1, 2)) if pp > 1 else 1
    schedule = "1f1b" if vpp > 1 else rng.choice(("1f1b", "gpipe", "zero-bubble-1p", "zero-bubble-2p"))
    return (
        f'[workload]\nkind = "training"\nzero = {rng.randrange(4)}\nschedule = "{schedule}"\n'
        f"microbatches = {pp * rng.choice((1, 2, 3))}\nsequence_parallel = {str(rng.random() < 0.5).lower()}\n"
        f'overlap_gradients = {str(rng.random() < 0.5).lower()}\nrecompute = "{rng.choice(("none", "full"))}"\n'
        f'placement = "{rng.choice(("in-order", "optimised"))}"\nrouting_skew = {0.5 * (experts > 1)}\n'
        f"[workload.model]\nlayers = 8\nhidden = 256\nheads = 4\nvocabulary = 1000\nsequence = 128\n"
        f"experts = {experts}\n"
        f"[workload.parallel]\ntp = {tp}\ncp = {cp}\ndp = {dp}\npp = {pp}\nvpp = {vpp}\nep = {experts}\n"
        f'[workload.compute]\ngpu = "{rng.choice(("a100-80g", "h100"))}"\njitter = {rng.choice((0.0, 0.05))}\n'
        f'[[workload.gpus]]\nservers = [1]\ngpu = "b200"\nslowness = {rng.choice((1.0, 1.5))}\n'
    )


def random_network(rng: random.Random) -> str:
    """A [network] table: any congestion control; often with buffers, loss, or a routing policy."""
    text = (
        f'[network]\ncongestion_control = "{rng.choice(LAWS)}"\nwindow = "{rng.choice(WINDOWS)}"\n'
        f'ecn_kmin = "{rng.choice(("5kB", "20kB"))}"\necn_kmax = "{rng.choice(("20kB", "80kB"))}"\necn_pmax = 0.3\n'
        f'payload = "{rng.choice((1000, 4000, 333))}B"\n'
    )
    recovery = rng.choice(("go-back-n", "selective-repeat"))
    if rng.random() < 0.3:
        text += f'[network.buffer]\nsize = "{rng.choice(("20MB", "40MB"))}"\nalpha = 0.004\n'
        text += f"[network.pfc]\nenabled = {rng.choice(('true', 'false'))}\n"
    if rng.random() < 0.2:
        text += f"[network.loss]\nprobability = {rng.choice((0.001, 0.02))}\n"
    if rng.random() < 0.3:
        recovery, policy = "selective-repeat", rng.choice(("spray", "flowlet", "adaptive", "weighted"))
        text += f'[network.routing]\npolicy = "{policy}"\nqueue_pairs_per_flow = 1\n'
    return text + f'[network.transport]\nrecovery = "{recovery}"\ntimeout = "200us"\nmax_timeout = "2ms"\n'


def write_config(rng: random.Random, seed: int, folder: Path) -> Path:
    """A random config in a folder of its own."""
    what = rng.choice(("flows", "traffic", "collectives", "training", "compiled"))
    kind = "roft" if what in ("training", "compiled") else rng.choice(("fat-tree", "three-tier", "leaf-spine", "roft"))
    workload = {
        "traffic": random_traffic, "collectives": random_collectives, "training": random_training,
        "compiled": random_compiled,
    }.get(what)  # fmt: skip
    n_iteration = rng.choice((1, 2)) if what in ("collectives", "training", "compiled") else 1
    stop = f'stop_time = "{rng.choice(("50us", "300us"))}"\n' if rng.random() < 0.25 else ""
    network = random_network(rng)
    simulation = f"[simulation]\nseed = {seed}\niterations = {n_iteration}\n{stop}"
    parts = [simulation, random_topology(rng, kind), network, workload(rng) if workload else random_flows(rng, folder)]
    path = folder / "config.toml"
    path.write_text("\n".join(parts))
    return path


def run_variant(config: Path, n_rank: int, placement: str) -> tuple[Path, str]:
    """(result folder, what went wrong) of one run."""
    out = config.parent / f"ranks-{n_rank}-{placement}"
    command = [sys.executable, "-m", "pdes", str(config), "--quiet", "--out", str(out)]
    command += ["--set", f"partition.placement={placement}"]
    if n_rank > 1:
        command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return out, done.stderr.strip() if done.returncode else ""


def main() -> None:
    """Run the configs and say which differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 configs")
    parser.add_argument("--runs", type=int, default=50, help="configs (default 50)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the configs (default 1)")
    arguments = parser.parse_args()
    n_config = 5 if arguments.quick else arguments.runs
    rng, n_same = random.Random(arguments.seed), 0
    root = Path(tempfile.mkdtemp(prefix="rank-identity-"))
    for i_config in range(n_config):
        folder = root / str(i_config)
        folder.mkdir()
        config = write_config(rng, i_config, folder)
        runs = [run_variant(config, *variant) for variant in VARIANTS]
        faults = [f"{out.name}: {fault}" for out, fault in runs if fault]
        first, first_fault = runs[0]
        faults += [f"{out.name}/{f} differs" for out, fault in runs[1:] if not fault and not first_fault
                   for f in present(first, out) if not filecmp.cmp(first / f, out / f, shallow=False)]  # fmt: skip
        n_same += not faults
        for fault in faults:
            print(f"{config}: {fault}")
        if not faults:
            shutil.rmtree(folder)
    print(f"{n_same} of {n_config} configs gave the same bytes in all of {len(VARIANTS)} runs")
    print_last({"configs": n_config, "identical": n_same, "seed": arguments.seed})
    sys.exit(n_same < n_config)


if __name__ == "__main__":
    main()
