"""Other tools' own files: every complete one runs to its end, every one that is cut says where it breaks off.

    python bench/importers.py --samples DIR [--quick] [--long]

DIR holds the samples of tests/importers/sample_list.py. A run is an ordinary one, through the readers and converters
that a user calls, with packets of 8000 B and fast-forwarding so that it ends soon. --quick: traces of less than 4000
nodes, ASTRA-sim's results of 1 MiB; --long: also a workload of 6 TB, a quarter of an hour, and results of 256 MiB.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from astra_golden import Compared, compare, summary

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "importers"))

from sample_list import INCOMPLETE, SAMPLES, TOPOLOGIES, Sample  # noqa: E402

from models.topology.ns3_file import read_ns3_topology  # noqa: E402
from models.workload.importers.chakra import rank_files  # noqa: E402
from models.workload.importers.formats import TraceSource, read_trace  # noqa: E402
from pdes import simulation  # noqa: E402
from pdes.config import load_config  # noqa: E402
from pdes.convert import astra_network, htsim_topology, simai_topology  # noqa: E402
from pdes.convert.toml_text import toml_text  # noqa: E402
from pdes.errors import SimError  # noqa: E402

QUICK_NODES = 4000
MIB = 2**20
CUT = (0.37, 0.61, 0.83)  # of a file
PLACE = re.compile(r"(line|byte) \d+")


class Outcome(NamedTuple):
    """One trace. error: "" if all went well."""

    sample: Sample
    n_node: int
    time_ps: int
    flows: int
    seconds: float
    error: str


def write_config(sample: Sample, samples: Path, config: Path) -> None:
    """A config as `pdes-sim convert` writes it for the sample and its topology."""
    workload, keys = samples / sample.path, dict(sample.keys)
    if isinstance(sample.topology, int):
        table = {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": sample.topology // 2}
        trace = {"kind": "trace", "format": sample.format, "file": str(workload)}
        config.write_text(toml_text("a sample", {"topology": table, "workload": trace | keys}))
        return
    topology = samples / sample.topology
    if topology.suffix == ".yml":
        groups, system = (samples / str(keys[k]) if k in keys else None for k in ("communicators", "system"))
        astra_network.convert(topology, config, workload, sample.format, groups, system)
    else:
        convert = htsim_topology.convert if topology.suffix == ".topo" else simai_topology.convert
        convert(topology, config, workload, sample.format)


def run(sample: Sample, samples: Path) -> Outcome:
    """Run a sample to its end."""
    begin_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        config = Path(work) / "case.toml"
        sets = [f"output.dir={work}/out", "wormhole.mode=exact", "network.payload=8000B"]
        sets += [f"workload.{k}={json.dumps(v)}" for k, v in sample.keys if k in ("gpus", "tolerant")]
        result: dict[str, Any] = {}
        try:
            write_config(sample, samples, config)
            simulation.simulate(load_config(config, sets))
            result = json.loads((Path(work) / "out" / "result.json").read_text())
            n_node = result["workload"]["nodes"]
            error = "" if n_node == sample.n_node else f"{sample.n_node} nodes expected"
        except SimError as fault:
            n_node, error = 0, str(fault)
    seconds = time.perf_counter() - begin_s
    return Outcome(sample, n_node, sum(result.get("iteration_time_ps", [])), result.get("flows", 0), seconds, error)


def cut_messages(sample: Sample, samples: Path) -> Iterator[str]:
    """What is said of a sample with one of its files cut, at several places; "" if nothing is."""
    path = samples / sample.path
    files = rank_files(path) if sample.format == "chakra" else [path]
    groups = dict(sample.keys).get("communicators")
    for share in CUT:
        with tempfile.TemporaryDirectory() as work:
            for file in files:
                whole = file.read_bytes()
                (Path(work) / file.name).write_bytes(whole[: int(len(whole) * share)] if file == files[-1] else whole)
            cut = Path(work) / (files[0].name if len(files) == 1 else path.name)
            source = TraceSource(sample.format, cut, samples / str(groups) if groups else None, None, True)
            try:
                read_trace(source, 16)
                yield ""
            except SimError as error:
                yield str(error)


def check_topology(name: str, samples: Path) -> tuple[int, int, int]:
    """(hosts, nodes, links) of a topology as the simulator has it."""
    path = samples / name
    if path.suffix in (".yml", ".topo"):
        with tempfile.TemporaryDirectory() as work:
            config = Path(work) / "case.toml"
            convert = astra_network.convert if path.suffix == ".yml" else htsim_topology.convert
            convert(path, config, path, "chakra")
            topology = read_ns3_topology(Path(work) / "case.topology.txt")
    else:
        topology = read_ns3_topology(path)
    return topology.n_host, topology.n_node, topology.n_port // 2


def refuses(name: str, form: str, samples: Path) -> str:
    """What is said of a file that is incomplete as it is."""
    try:
        if form == "topology":
            read_ns3_topology(samples / name)
        else:
            read_trace(TraceSource(form, samples / name, tolerant=True), 16)
    except SimError as error:
        return str(error)
    return ""


def print_runs(outcomes: list[Outcome]) -> None:
    """A line per sample."""
    print(f"{'sample':64} {'on':38} {'nodes':>7} {'flows':>7} {'simulated':>12} {'wall':>7}")
    for o in outcomes:
        on = o.sample.topology if isinstance(o.sample.topology, str) else f"leaf-spine, {o.sample.topology} hosts"
        end = f"{o.time_ps / 1e9:9.3f} ms {o.seconds:6.1f} s" if not o.error else f"FAILED: {o.error}"
        print(f"{o.sample.path[-64:]:64} {Path(on).name[:38]:38} {o.n_node:7} {o.flows:7} {end}")


def print_golden(found: list[Compared]) -> None:
    """Ratios by network and system."""
    title = "ours / ASTRA-sim, mean over collectives and sizes"
    print(f"\n{title:50} {'runs':>6} {'unaware':>8} {'aware':>8} {'near':>6}")
    for (network, system), (n, unaware, aware, n_near) in summary(found).items():
        shown = f"{aware:8.3f}" if aware else f"{'-':>8}"
        print(f"{network + ', ' + system:50} {n:6} {unaware:8.3f} {shown} {n_near:6}")


def main() -> int:
    """Run all; 0 if every complete sample ran and every cut one was refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=Path, required=True, help="folder with the samples")
    parser.add_argument("--quick", action="store_true", help="the small ones")
    parser.add_argument("--long", action="store_true", help="also what takes long")
    arguments = parser.parse_args()
    samples, is_quick = arguments.samples, arguments.quick
    chosen = [s for s in SAMPLES if (arguments.long or not s.is_long) and (not is_quick or s.n_node < QUICK_NODES)]
    outcomes = [run(sample, samples) for sample in chosen]
    print_runs(outcomes)
    messages = [(s, text) for s in SAMPLES for text in cut_messages(s, samples)]
    placed = [bool(PLACE.search(text)) for _, text in messages]
    for (sample, text), is_placed in zip(messages, placed, strict=True):
        if not is_placed:
            print(f"cut: {sample.path}: {text or 'accepted'}")
    print(
        f"\n{len(messages)} cut files, {sum(placed)} refused with the line or the byte; the first:\n  {messages[0][1]}"
    )
    wrong = {n: found for n, want in TOPOLOGIES.items() if (found := check_topology(n, samples)) != want}
    n_right = len(TOPOLOGIES) - len(wrong)
    print(f"{len(TOPOLOGIES)} topologies, {n_right} with the hosts, nodes and links expected {wrong or ''}")
    refused = {n: refuses(n, form, samples) for n, (form, _) in INCOMPLETE.items()}
    n_refused = sum(bool(re.search(INCOMPLETE[n][1], text)) for n, text in refused.items())
    for name, text in refused.items():
        print(f"incomplete: {name}: {text or 'accepted'}")
    largest = MIB if arguments.quick else 256 * MIB if arguments.long else 16 * MIB
    golden = list(compare(samples / "astra-sim" / "golden", largest))
    print_golden(golden)
    figures = {
        "samples": len(outcomes),
        "ran": sum(not o.error for o in outcomes),
        "cut": len(messages),
        "cut_refused": sum(placed),
        "topologies": len(TOPOLOGIES),
        "topologies_as_expected": len(TOPOLOGIES) - len(wrong),
        "incomplete": len(INCOMPLETE),
        "incomplete_refused": n_refused,
        "golden": len(golden),
        "golden_within_10_percent": sum(c.is_near for c in golden),
    }
    print(json.dumps(figures))
    pairs = (("samples", "ran"), ("cut", "cut_refused"), ("topologies", "topologies_as_expected"))
    return int(any(figures[a] != figures[b] for a, b in (*pairs, ("incomplete", "incomplete_refused"))))


if __name__ == "__main__":
    sys.exit(main())
