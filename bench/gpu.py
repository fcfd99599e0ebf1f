"""Packet-hops per second of the window engine, on a GPU if there is one, against the usual engine on one core.

    python bench/gpu.py [--quick]          1, 16, 512, 2,048 experiments of 128 hosts; 8,192 and 54,000
    python bench/gpu.py --ptx              compile the kernels for a GPU that is not there; is anything fused?
    python bench/gpu.py --same 200         drawn tiny configs under Numba's CUDA simulator: are results the same bytes?

Every host of a k-ary fat-tree (100 Gbit/s, 1 us) sends one short flow to another one, a permutation, with DCTCP.
Experiments differ in permutation and seed; beyond 16 they repeat. Rates are after a run that compiles, with copies to
the GPU and back, and of the kernels without these; the usual engine runs experiments one after the other. Where there
is no GPU, the same source runs compiled for the CPU, and the table says so: that is no measurement of a GPU.
"""

import argparse
import contextlib
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import pdes
from cases import print_last
from models.network.windows.engine import CpuEngine
from models.network.windows.make import Network, make_windows
from models.network.windows.state import ROOM
from pdes.engine.exchange import World
from pdes.errors import ConfigError
from pdes.simulation.devices.refusals import check_cuda
from pdes.simulation.devices.run import network_of
from pdes.simulation.job import Run
from pdes.simulation.preparation.prepare import prepare

CASES = ((8, 1), (8, 16), (8, 512), (8, 2048), (32, 1), (60, 1))  # k of the fat-tree, experiments
QUICK = ((4, 1), (4, 16))
N_DISTINCT, H100 = 16, (9, 0)
TINY = Path(__file__).resolve().parents[1] / "tests/pdes/devices/tiny_runs.py"
CONFIGS_AT_ONCE = 10


def config_of(k: int, seed: int, size_bytes: int, folder: Path, law: str = "dctcp") -> pdes.Config:
    """One experiment."""
    n_host = k**3 // 4
    order = np.random.default_rng(seed).permutation(n_host)
    lines = [f"{src},{dst},{size_bytes},0" for src, dst in zip(order, np.roll(order, -1), strict=True)]
    path = folder / f"flows-{k}-{seed}.csv"
    path.write_text("\n".join(["src,dst,size_bytes,start_ps", *lines]) + "\n")
    topology = {"kind": "fat-tree", "k": k, "link_rate": "100Gbps", "link_delay": "1us"}
    tables: dict[str, Any] = {"topology": topology, "workload": {"kind": "flows", "file": str(path)}}
    config = pdes.make_config(tables, network={"congestion_control": law}, simulation={"seed": seed})
    return config.written_to(folder / f"out-{k}-{seed}")


def usual(configs: list[pdes.Config]) -> tuple[int, float]:
    """(packet-hops, seconds of the loop) of the usual engine, one experiment after the other."""
    results = [pdes.simulate(config) for config in configs]
    return sum(r.summary["packet_hops"] for r in results), sum(r.run["loop_seconds"] for r in results)


def networks_of(configs: list[pdes.Config]) -> list[Network]:
    """What experiments are made of."""
    found = []
    for config in configs:
        prepared = prepare(config, quiet=True)
        job = Run(prepared, World())
        found.append(network_of(job))
        job.rows.close()
        prepared.folder.abandon()
    return found


def windows(networks: list[Network], n_experiment: int, engine: Any) -> tuple[int, float]:
    """(packet-hops, seconds) of so many experiments at once."""
    w = make_windows([networks[i % len(networks)] for i in range(n_experiment)], engine.chunk_nodes)
    begin_s = time.perf_counter()
    w = engine.run(w)
    return int(w.spots["n_hop"].sum()), time.perf_counter() - begin_s


def find_engine(n_thread: int) -> tuple[Any, str]:
    """The engine and what it runs on."""
    try:
        check_cuda("bench/gpu.py")
    except ConfigError as error:
        print(f"no GPU here: compiled for the CPU ({error.found})")
        return CpuEngine(n_thread), f"CPU, {n_thread or 'all'} thread{'' if n_thread == 1 else 's'}"
    from models.network.windows.cuda import CudaEngine, name

    return CudaEngine(), name()


def measure(cases: tuple[tuple[int, int], ...], size_bytes: int, n_thread: int, folder: Path) -> dict[str, Any]:
    """Print the table; what it says."""
    engine, device = find_engine(n_thread)
    print(
        f"{'hosts':>6} {'experiments':>11} {'packet-hops':>12} {'seconds':>8} {'M hops/s':>9} {'in kernels':>10} "
        f"{'usual, 1 core':>13}   on {device}"
    )
    rows = []
    for k, n_experiment in cases:
        configs = [config_of(k, seed, size_bytes, folder) for seed in range(1, 1 + min(n_experiment, N_DISTINCT))]
        networks = networks_of(configs)
        usual(configs[:1])
        hops, usual_s = usual(configs)
        is_gpu = not isinstance(engine, CpuEngine)
        windows(networks, n_experiment if is_gpu else 1, engine)  # compiles what that many run
        before_s = engine.kernel_seconds if is_gpu else 0.0
        n_hop, seconds = windows(networks, n_experiment, engine)
        kernel_s = engine.kernel_seconds - before_s if is_gpu else seconds
        n_repeat = n_experiment // len(configs)
        assert n_hop == hops * n_repeat, (n_hop, hops, n_repeat)  # a rate of other work would say nothing
        row = {"hosts": k**3 // 4, "experiments": n_experiment, "packet_hops": n_hop, "seconds": round(seconds, 4)}
        row |= {"m_per_s": round(n_hop / seconds / 1e6, 2), "kernels_m_per_s": round(n_hop / kernel_s / 1e6, 2)}
        row |= {"usual_m_per_s": round(hops / usual_s / 1e6, 2)}
        rows.append(row)
        print(
            f"{row['hosts']:6,} {n_experiment:11,} {n_hop:12,} {seconds:8.3f} {row['m_per_s']:9.2f} "
            f"{row['kernels_m_per_s']:10.2f} {row['usual_m_per_s']:13.2f}", flush=True,
        )  # fmt: skip
    return {"device": device, "rows": rows}


def compare(n_config: int) -> dict[str, Any]:
    """Results of drawn configs under the CUDA simulator against the usual engine's, both as plain Python."""

    def run(first: int) -> str:
        end = min(first + CONFIGS_AT_ONCE, n_config)
        command = [sys.executable, str(TINY), "cuda", str(first), str(end), "20000"]
        environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(run, range(0, n_config, CONFIGS_AT_ONCE)))
    lines = [line for text in texts for line in text.splitlines()]
    totals = [line.split() for line in lines if "compared" in line]
    differing = [line for line in lines if "compared" not in line]
    found = {"configs": sum(int(t[0]) for t in totals), "marked": sum(int(t[3]) for t in totals)}
    found |= {"differing": len(differing)}
    print(
        "\n".join(
            [*differing, f"{found['configs']} configs, {found['marked']} packets marked: {len(differing)} differ"]
        )
    )
    return found


def assemble(folder: Path) -> dict[str, Any]:
    """Compile the kernels to PTX of an H100, for each control: no GPU is needed, but numba-cuda with NVVM is."""
    from numba import cuda, typeof, types
    from numba.cuda import dispatcher

    from models.network.windows.cuda import KERNELS, unfused
    from pdes.simulation.devices.refusals import LAWS

    module: Any = dispatcher
    module.get_current_device = lambda: SimpleNamespace(compute_capability=H100)
    found: dict[str, Any] = {}
    for law in LAWS:
        config = config_of(4, 1, 1000, folder, law)
        w = make_windows(networks_of([config]), CpuEngine.chunk_nodes)
        arguments = (typeof(w), types.int64)
        signatures = (
            types.void(*arguments), types.void(*arguments, types.int64[::1]),
            types.void(typeof(w), typeof(np.zeros(1, ROOM))),
            types.void(typeof(w), typeof(np.zeros(1, ROOM)), types.int64[::1]),
        )  # fmt: skip
        counts = []
        for context in (contextlib.nullcontext(), unfused()):
            with context:
                texts = [
                    cuda.compile_ptx(kernel.py_func, signature, cc=H100)[0]
                    for kernel, signature in zip(KERNELS, signatures, strict=True)
                ]
            counts.append(sum(text.count("fma.rn.f64") for text in texts))
        found[law] = {"fused_by_default": counts[0], "fused": counts[1]} | _machine_code(texts[0], folder)
        print(f"{law}: fused operations: {counts[0]} by default, {counts[1]} as kernels are run; {found[law]}")
    return found


def _machine_code(text: str, folder: Path) -> dict[str, int]:
    """What the kernel that runs experiments takes of a thread on an H100, if there is an assembler here; else {}."""
    packages = [Path(place).glob("nvidia/*/bin/ptxas") for place in site.getsitepackages()]
    (folder / "kernel.ptx").write_text(text)
    said = "no ptxas here"
    for program in (*(str(path) for paths in packages for path in paths), shutil.which("ptxas")):
        if program is None:
            continue
        command = [program, "-arch=sm_90", "-v", str(folder / "kernel.ptx"), "-o", str(folder / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = done.stderr
        if not done.returncode:
            break
    else:  # an older one does not read what a newer NVVM has written
        print(f"not assembled: {said.strip()}")
        return {}
    match = re.search(r"Used (\d+) registers.*?(\d+) bytes cumulative stack", said)
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill stores", said))
    return {"registers": int(match[1]), "stack_bytes": int(match[2]), "spilled_bytes": spilled} if match else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 hosts, 1 and 16 experiments")
    parser.add_argument("--cases", metavar="K:E,..", help="k of the fat-tree and experiments, instead of all")
    parser.add_argument("--bytes", type=int, default=100_000, metavar="N", help="of each flow (default: %(default)s)")
    parser.add_argument("--threads", type=int, choices=(0, 1), default=1, help="without a GPU: 0 is all cores")
    parser.add_argument(
        "--ptx", action="store_true", help="compile the kernels for an H100 instead; numba-cuda has to be there"
    )
    parser.add_argument("--same", type=int, metavar="N", help="compare results of N drawn configs instead")
    arguments = parser.parse_args()
    if arguments.same:
        print_last(compare(arguments.same))
        return
    if arguments.ptx:
        with tempfile.TemporaryDirectory() as folder:
            print_last(assemble(Path(folder)))
        return
    cases = QUICK if arguments.quick else CASES
    if arguments.cases:
        pairs = [text.split(":") for text in arguments.cases.split(",")]
        cases = tuple((int(k), int(n)) for k, n in pairs)
    with tempfile.TemporaryDirectory() as folder:
        print_last(measure(cases, arguments.bytes, arguments.threads, Path(folder)))


if __name__ == "__main__":
    main()
