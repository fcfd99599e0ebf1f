"""Whether a large job that is fast-forwarded ends, and how far shares of ports move its iteration.

    python bench/ends.py [--case rails,spines]

LLaMA-3-70B on 512 H100s (TP8-DP16-PP4-VPP5) with DCTCP and a memo tolerance of 0.02, on rails and on a fat-tree of
two layers, once with what flows get of shared ports taken as known (`shares`), once without. With `shares` both
stopped once with flows that could not go on: what rounds had judged steady was frozen though it had just gone to flow
level. A few minutes each on one core.
"""

import argparse
import tempfile
from pathlib import Path

from cases import print_last
from pdes.config.wormhole.table import FORECASTS
from runs import only, simulate

RAILS = """\
kind = "roft"
gpus = 512
gpus_per_server = 8
servers_per_rail_switch = 32
nic_rate = "400Gbps"
spine_rate = "400Gbps"
nvlink = "packets"
"""
SPINES = """\
kind = "file"
file = "fat-tree.txt"
gpus_per_server = 8
"""
JOB = """
[topology]
{topology}
[network]
congestion_control = "dctcp"
payload = "4096B"
[workload]
kind = "training"
preset = "llama3-70b"
global_batch = 512
microbatch = "auto"
sequence_parallel = true
overlap_tensor = true
zero = 1
[workload.parallel]
tp = 8
dp = 16
pp = 4
vpp = 5
[workload.compute]
gpu = "h100"
[wormhole]
mode = "auto"
tolerance = 0.02
"""
N_HOST, N_LEAF, N_SPINE = 512, 16, 32


def fat_tree() -> str:
    """Every leaf has 32 hosts and a link to each spine: a topology file as ns-3's HPCC code reads them."""
    leaves, spines = range(N_HOST, N_HOST + N_LEAF), range(N_HOST + N_LEAF, N_HOST + N_LEAF + N_SPINE)
    links = [f"{host} {N_HOST + host // (N_HOST // N_LEAF)} 400Gbps 500ns 0" for host in range(N_HOST)]
    links += [f"{leaf} {spine} 400Gbps 1.5us 0" for leaf in leaves for spine in spines]
    switches = " ".join(map(str, [*leaves, *spines]))
    return "\n".join([f"{N_HOST + N_LEAF + N_SPINE} {N_LEAF + N_SPINE} {len(links)}", switches, *links]) + "\n"


def main() -> None:
    """Run, print a line per case and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="rails,spines")
    found = {}
    for case in parser.parse_args().case.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "fat-tree.txt").write_text(fat_tree())
            config = folder / "job.toml"
            config.write_text(JOB.format(topology={"rails": RAILS, "spines": SPINES}[case]))
            times_s = []
            for shares, forecasts in {"true": FORECASTS, "false": FORECASTS[:-1]}.items():
                done = simulate(config, [only(*forecasts)], folder / shares)
                times_s.append(done.result["iteration_time_ps"][0] / 1e12)
                print(
                    f"{case:7} shares={shares:5} iteration {times_s[-1]:.4f} s, {done.start_to_result_s:.0f} s",
                    flush=True,
                )
        found[case] = {"shares_s": times_s[0], "without_s": times_s[1], "off": times_s[0] / times_s[1] - 1}
        print(f"{case:7} with shares against without: {100 * found[case]['off']:+.2f} %", flush=True)
    print_last(found)


if __name__ == "__main__":
    main()
