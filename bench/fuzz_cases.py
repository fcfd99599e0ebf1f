"""Inputs for `fuzz.py`: configs, topologies, flows and traces that are valid, nearly so, or hostile."""

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from rank_identity import write_config

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from models.topology import leaf_spine  # noqa: E402
from reference import made_traces as made  # noqa: E402
from reference.result_folders import make_folder  # noqa: E402

ENDLESS = 0.02  # of all changes: a file becomes a pipe without a writer, or a device
LEVELS = ("valid", "nearly", "hostile")
WORDS = (
    "-1", "0", "1", "2", "65535", "4294967296", "9223372036854775807", "9223372036854775808", "1e400", "-1e-400", "nan",
    "inf", "0x10", "1_000", "1.5", "true", "[]", "[1]", "{}", '""', '"0"', '"-1us"', '"1"', '"1e30GB"', '"nanGbps"',
    '"auto"', '"none"', '"\\u0000"', "'''", '"𝟙𝟚us"', '"../../etc/passwd"', '"."', "99999999999999999999999999", "-0",
    "9" * 5000, f'"{"9" * 5000}Gbps"', "[" * 3000 + "]" * 3000, "1e-999999999", '"400GB/s"', '"9000000s"', f"{10**25}",
)  # fmt: skip
BYTES = (b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\n\n\n", b"[", b"]]", b"\x80" * 9, b"=" * 40, b"\x7f" * 20)
KEYS = (
    "simulation.seed", "network.payload", "network.window", "workload.size", "topology.k", "partition.placement",
    "network.buffer.size", "run.memory_limit", "checkpoint.every", "output.sample_interval", "wormhole.mode",
    "network.transport.timeout", "topology.link_event.0.time", "=", "a", "workload.collective.7.size",
)  # fmt: skip
STOP = ("--set", "simulation.stop_time=20us")


def mutate_text(draw: random.Random, text: str, n: int) -> str:
    """Text with n of its words or lines changed."""
    for _ in range(n):
        lines = text.splitlines() or [""]
        i, what = draw.randrange(len(lines)), draw.random()
        words = lines[i].replace("\t", " \t ").replace(",", " , ").split(" ")
        if what < 0.6:
            words[draw.randrange(len(words))] = draw.choice(WORDS)
            lines[i] = "".join(words) if "," in lines[i] else " ".join(words)
        elif what < 0.75:
            del lines[i]
        elif what < 0.85:
            lines.insert(draw.randrange(len(lines) + 1), lines[i])
        elif what < 0.95:
            j = draw.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        else:
            lines = "\n".join(lines)[: draw.randrange(len(text) + 1)].splitlines()
        text = "\n".join(lines) + "\n"
    return text


def mutate_bytes(draw: random.Random, data: bytes, n: int) -> bytes:
    """Bytes with n places changed."""
    for _ in range(n):
        at, what = draw.randrange(len(data) + 1), draw.random()
        if what < 0.4 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
        elif what < 0.6:
            data = data[:at]
        elif what < 0.8:
            data = data[:at] + draw.choice(BYTES) + data[at:]
        else:
            data = data[:at] + data[at + draw.randrange(1, 12) :]
    return data


def mutate(draw: random.Random, path: Path, level: str) -> None:
    """Change a file as the level says."""
    n = {"valid": 0, "nearly": 1, "hostile": draw.randint(2, 6)}[level]
    if not n:
        return
    if draw.random() < ENDLESS:
        path.unlink()
        os.mkfifo(path) if draw.random() < 0.5 else path.symlink_to("/dev/zero")
        return
    data = path.read_bytes()
    is_text = draw.random() < 0.8
    try:
        text = data.decode()
    except UnicodeDecodeError:
        is_text = False
    path.write_bytes(mutate_text(draw, text, n).encode() if is_text else mutate_bytes(draw, data, n))


def config_case(draw: random.Random, folder: Path, level: str) -> list[str]:
    """A config of any kind, changed."""
    config = write_config(draw, draw.randrange(2**31), folder)
    extra = draw.choice(("", "", '[wormhole]\nmode = "exact"\n', '[output]\nsample_interval = "5us"\n'))
    config.write_text(config.read_text() + extra)
    mutate(draw, draw.choice([config, config, config, *folder.glob("*.csv")]), level)
    return [str(config), *STOP]


def _flows_config(folder: Path, topology: str, file: str) -> Path:
    config = folder / "config.toml"
    config.write_text(f'[topology]\n{topology}\n[workload]\nkind = "flows"\nfile = "{file}"\n')
    return config


def topology_case(draw: random.Random, folder: Path, level: str) -> list[str]:
    """A topology file in ns-3's format: hosts below switches that are a tree, or more."""
    n_switch, per_switch = draw.randint(1, 4), draw.randint(2, 4)
    n_host = n_switch * per_switch
    switches = range(n_host, n_host + n_switch)
    links = [(host, switches[host // per_switch]) for host in range(n_host)]
    links += [(switches[draw.randrange(i)], switches[i]) for i in range(1, n_switch)]
    links += [tuple(draw.sample(switches, 2)) for _ in range(draw.randrange(3)) if n_switch > 1]
    rows = [f"{n_host + n_switch} {n_switch} {len(links)}", " ".join(map(str, switches))]
    for a, b in links:
        rate, delay = draw.choice(("100Gbps", "25Gbps", "400Gbps")), draw.choice(("1us", "0.001ms", "500ns"))
        rows.append(f"{a} {b} {rate} {delay} {draw.choice(('0', '0', '0.01', '0.000000'))}")
    (folder / "topology.txt").write_text("\n".join(rows) + "\n")
    pairs = [(0, n_host - 1), *((draw.randrange(n_host), draw.randrange(n_host)) for _ in range(draw.randint(0, 8)))]
    flows = ["src,dst,size_bytes,start_ps", *(f"{a},{b},{draw.randint(1, 30_000)},0" for a, b in pairs if a != b)]
    (folder / "flows.csv").write_text("\n".join(flows) + "\n")
    config = _flows_config(folder, 'kind = "file"\nfile = "topology.txt"', "flows.csv")
    mutate(draw, folder / "topology.txt", level)
    return [str(config), *STOP]


def flows_case(draw: random.Random, folder: Path, level: str) -> list[str]:
    """A flow list, ours or ns-3's."""
    n, is_csv = draw.randint(1, 12), draw.random() < 0.6
    pairs = [draw.sample(range(16), 2) for _ in range(n)]
    starts = sorted(draw.randrange(10**7) for _ in range(n))
    if is_csv:
        has_tag = draw.random() < 0.5
        rows = ["src,dst,size_bytes,start_ps" + (",priority,tag" if has_tag else "")]
        for (a, b), start_ps in zip(pairs, starts, strict=True):
            rows.append(
                f"{a},{b},{draw.randint(1, 50_000)},{start_ps}" + (f",{draw.randrange(8)},x" if has_tag else "")
            )
        file = folder / "flows.csv"
    else:
        rows = [str(n)]
        for (a, b), start_ps in zip(pairs, starts, strict=True):
            rows.append(f"{a} {b} 3 {draw.randint(100, 9000)} {draw.randint(1, 50_000)} {start_ps / 1e12:.9f}")
        file = folder / "flow.txt"
    file.write_text("\n".join(rows) + "\n")
    config = _flows_config(folder, 'kind = "fat-tree"\nk = 4', file.name)
    mutate(draw, file, level)
    return [str(config), *STOP]


def trace_case(draw: random.Random, folder: Path, level: str) -> list[str]:
    """A workload of another tool."""
    kind = draw.choice(("chakra", "chakra", "llama", "json", "goal", "simai", "astra-sim-text", "htsim"))
    keys, files = "", []
    if kind == "chakra":
        made.write_chakra(folder, "trace", made.two_ranks())
        name, form, files = "trace", "chakra", sorted(folder.glob("trace.*.et"))
    elif kind == "llama":
        made.hybrid_llama(folder)
        name, form, files = "llama", "chakra", [*sorted(folder.glob("llama.*.et")), folder / "llama.json"]
        keys = 'communicators = "llama.json"\n'
    elif kind == "json":
        (folder / "trace.0.json").write_text(json.dumps(made.PYTORCH_JSON, indent=1))
        name, form, files = "trace", "chakra", [folder / "trace.0.json"]
        keys = "tolerant = true\n" if draw.random() < 0.5 else ""
    else:
        text = {"goal": made.GOAL_RING, "simai": made.SIMAI, "astra-sim-text": made.ASTRA_DATA,
                "htsim": made.HTSIM_SERIAL}[kind]  # fmt: skip
        name = f"trace.{ {'goal': 'goal', 'htsim': 'cm'}.get(kind, 'txt') }".replace(" ", "")
        (folder / name).write_text(text)
        form, files = kind, [folder / name]
        keys = "gpus = 8\n" if kind == "astra-sim-text" else ""
    config = folder / "config.toml"
    config.write_text(
        f'[topology]\nkind = "leaf-spine"\nleaves = 2\nspines = 1\nhosts_per_leaf = 4\n'
        f'[workload]\nkind = "trace"\nformat = "{form}"\nfile = "{name}"\n{keys}'
    )
    mutate(draw, draw.choice(files), level)
    return [str(config), *STOP]


def convert_case(draw: random.Random, folder: Path, level: str) -> list[str]:
    """Another tool's topology, to be converted."""
    if draw.random() < 0.5:
        (folder / "tree.topo").write_text(made.HTSIM_TREE)
        (folder / "traffic.cm").write_text(made.HTSIM_SERIAL)
        files, argv = ["tree.topo", "traffic.cm"], ["convert", "htsim", "tree.topo", "-w", "traffic.cm"]
    else:
        (folder / "case").mkdir()
        source = Path(__file__).resolve().parent.parent / "tests/reference/ns3_cases/a_single/dcqcn"
        for path in source.iterdir():
            (folder / "case" / path.name).write_bytes(path.read_bytes())
        files, argv = ["case/config.txt", "case/flow.txt", "case/topology.txt"], ["convert", "ns3", "case"]
    mutate(draw, folder / draw.choice(files), level)
    words = [str(folder / word) if (folder / word).exists() else word for word in argv]
    return [*words, "-o", str(folder / "converted.toml")]


def command_case(draw: random.Random, folder: Path, level: str) -> list[str]:
    """A sound config with overrides that are not."""
    config = write_config(draw, draw.randrange(2**31), folder)
    sets = [*STOP]
    for _ in range({"valid": 0, "nearly": 1, "hostile": 4}[level]):
        sets += ["--set", f"{draw.choice(KEYS)}={draw.choice(WORDS)}"]
    return [str(config), *sets]


def algorithm_case(draw: random.Random, folder: Path, level: str) -> list[str]:
    """An MSCCL algorithm: two GPUs that sum two chunks, one after the other."""
    steps = '<step s="0" type="s" srcbuf="i" srcoff="{0}" dstbuf="i" dstoff="{0}" cnt="1" depid="-1" deps="-1"/>\n' + (
        '<step s="1" type="rrcs" srcbuf="i" srcoff="{1}" dstbuf="i" dstoff="{1}" cnt="1" depid="-1" deps="-1"/>\n'
        '<step s="2" type="r" srcbuf="i" srcoff="{0}" dstbuf="i" dstoff="{0}" cnt="1" depid="-1" deps="-1"/>\n'
    )
    gpus = [
        f'<gpu id="{gpu}" >\n<tb id="0" send="{1 - gpu}" recv="{1 - gpu}" chan="0">\n'
        f"{steps.format(gpu, 1 - gpu)}</tb>\n</gpu>\n"
        for gpu in range(2)
    ]
    head = '<algo name="x" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1">\n'
    (folder / "ring.xml").write_text(f"{head}{''.join(gpus)}</algo>\n".replace('="', '= "'))
    config = folder / "config.toml"
    config.write_text(
        '[topology]\nkind = "leaf-spine"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\n'
        '[workload]\nkind = "collectives"\ngpu = "h100"\n[[workload.collective]]\nname = "x"\n'
        'operation = "all-reduce"\nsize = "8kB"\nmsccl = "ring.xml"\n'
    )
    mutate(draw, folder / "ring.xml", level)
    return [str(config), *STOP]


def results_case(draw: random.Random, folder: Path, level: str) -> list[str]:
    """A result folder, read by each command that reads one."""
    topology = leaf_spine(1, 0, 4, 10**11, 10**11, 10**6, 10**6)
    times = {"start_ps": 0, "finish_ps": 10**9, "delivered_ps": 10**9, "ideal_fct_ps": 10**8}
    flows = [{"src": i, "dst": i + 1, "size_bytes": 10**6, **times} for i in range(3)]
    one, other = (make_folder(folder / name, topology, None, flows) for name in "ab")
    files = [one / name for name in ("result.json", "run.json", "flows.parquet", "ports.parquet")]
    if draw.random() < 0.2:
        work = one / ".pdes-work-1-a"
        work.mkdir()
        (one / "result.json").rename(work / "result.json")
        (work / "commit-plan.json").write_text('["result.json"]')
        files = [work / "commit-plan.json", work / "result.json"]
    mutate(draw, draw.choice(files), level)
    out = str(folder / "out")
    return draw.choice((
        ["report", str(one), "--out", out], ["report", str(other), str(one), "--out", out],
        ["diff", str(one), str(other)], ["timeline", str(one), "-o", out], ["export", "fct", str(one), "-o", out],
    ))  # fmt: skip


Generate = Callable[[random.Random, Path, str], list[str]]
FAMILIES: dict[str, tuple[Generate, int]] = {
    "config": (config_case, 45), "topology file": (topology_case, 14), "flow file": (flows_case, 14),
    "trace": (trace_case, 17), "conversion": (convert_case, 4), "override": (command_case, 6),
    "algorithm": (algorithm_case, 4), "results": (results_case, 6),
}  # fmt: skip


def make_case(seed: int, i_case: int, folder: Path) -> tuple[str, str, list[str]]:
    """(family, level, arguments of the program) of a case, its files in a folder; the same for the same numbers."""
    draw = random.Random(f"{seed} {i_case}")
    family = draw.choices(list(FAMILIES), [weight for _, weight in FAMILIES.values()])[0]
    level = draw.choices(LEVELS, (3, 4, 3))[0]
    argv = FAMILIES[family][0](draw, folder, level)
    return family, level, argv
