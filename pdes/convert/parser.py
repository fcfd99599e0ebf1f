"""The arguments of `pdes-sim convert` and `export`, and what `convert` calls."""

import argparse
from pathlib import Path

from pdes.convert.cluster.names import CLUSTER_FORMATS
from pdes.convert.servers import KINDS, Fabric
from pdes.errors import ConfigError

CONVERTED = {
    "ns3": "a folder with topology.txt, flow.txt, config.txt",
    "astra-sim": "a network file (.yml); --workload, and --system, --communicators",
    "simai": "a topology file; --workload",
    "htsim": "a fat-tree file (.topo); --workload",
    "flows": "a CSV with start_s,src,dst,bytes[,agg,core], on a fat-tree, or a folder with one",
    "sailor": "a plan (.json) of Sailor's; --profiles",
    "cluster": "a public trace of jobs on a cluster, or a folder with one",
    "kineto": "a trace of PyTorch's profiler, .json or .json.gz, or a folder with one per rank",
    "nsight": "a recording of Nsight Systems, exported as SQLite",
    "megatron": "a launch script or arguments of Megatron-LM, or its YAML",
    "nemo": "YAML of NeMo or Megatron-Bridge",
}
PROFILES = ("kineto", "nsight")
LAUNCHES = ("megatron", "nemo")
USUAL_FORMAT = {"astra-sim": "chakra", "simai": "simai", "htsim": "htsim"}
EXPORTED = {
    "chakra": "a config, to -o PREFIX: a file per GPU, and the communicators",
    "goal": "a config, to -o FILE: GOAL as text",
    "fct": "a result folder, to -o FILE: flows in ns-3's 8 columns",
    "kernels": "a training config, to -o FILE: its kernels and their times, a table for [workload.compute] kernels",
}


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Arguments of convert."""
    text = "; ".join(f"{name}: {what}" for name, what in CONVERTED.items())
    parser.add_argument("format", choices=list(CONVERTED), help=text)
    parser.add_argument("input", metavar="INPUT", help="the other simulator's input")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the config to write, such as case.toml")
    parser.add_argument("-w", "--workload", metavar="FILE", help="a trace; a topology alone is not enough for a config")
    formats = ("chakra", "goal", "simai", "astra-sim-text", "htsim", "profile")
    text = "what the workload is, if not what goes with the topology"
    parser.add_argument("--workload-format", choices=formats, help=text)
    parser.add_argument("--communicators", metavar="FILE", help="of a Chakra trace, JSON")
    parser.add_argument("--system", metavar="FILE", help="ASTRA-sim's system file, JSON: algorithms of collectives")
    text = "ns3: by which rules the config is to run; default: ns-3's own"
    parser.add_argument("--compatibility", choices=["ns3-hpcc", "none"], default="ns3-hpcc", help=text)
    text = 'ns3: by our own rules, the same as "--compatibility none"'
    parser.add_argument("--native", action="store_const", dest="compatibility", const="none", help=text)
    text = (
        "sailor: the folder of the model's profiles, such as profiles/OPT-350; cluster: Gavel's throughputs, JSON, or "
        "the folder of Sia's applications, if not beside the trace"
    )
    parser.add_argument("--profiles", metavar="PATH", help=text)
    text = "flows: ports of a switch of the fat-tree; default: the least that has room"
    parser.add_argument("--k", type=int, metavar="N", help=text)
    parser.add_argument("--rate", default="100Gbps", help="flows: of all links; default: %(default)s")
    parser.add_argument("--delay", default="1us", help="flows: of each link; default: %(default)s")
    text = "; ".join(f"{name}: {what}" for name, what in CLUSTER_FORMATS.items())
    text = f"cluster: which trace it is, if its columns are not to say it: {text}"
    parser.add_argument("--format", dest="trace_format", choices=list(CLUSTER_FORMATS), metavar="NAME", help=text)
    text = "cluster: how many servers there are, in the place of what the trace says; default: a load of 80 %%"
    parser.add_argument("--servers", type=int, metavar="N", help=text)
    text = "GPUs of a server; default: 8, of other numbers of GPUs than multiples of 8 a divisor"
    parser.add_argument("--gpus-per-server", type=int, metavar="N", help=text)
    parser.add_argument(
        "--gpu", metavar="TYPE", help='cluster: the type of all GPUs, such as "V100"; megatron, nemo: default "h100"'
    )
    text = "cluster: servers of a type of GPU, as v100=36, or v100=9x4 with four GPUs each; may be repeated"
    parser.add_argument("--pool", metavar="TYPE=SERVERS", action="append", default=[], help=text)
    _add_fabric(parser)


def _add_fabric(parser: argparse.ArgumentParser) -> None:
    """Arguments of what says nothing about the network, and of profiles."""
    names = ", ".join((*PROFILES, *LAUNCHES))
    text = f"{names}: the fabric; default: %(default)s"
    parser.add_argument("--topology", choices=KINDS, default=KINDS[0], help=text)
    text = f"{names}: the rate of a GPU's NIC; default: %(default)s"
    parser.add_argument("--nic-rate", default=Fabric.nic_rate, metavar="RATE", help=text)
    text = "megatron: a variable that the script takes from its environment; may be repeated"
    parser.add_argument("--variable", metavar="NAME=VALUE", action="append", default=[], help=text)
    text = f"{names}: GPUs of the job, if the input does not say"
    parser.add_argument("--gpus", type=int, metavar="N", help=text)
    names = ", ".join(PROFILES)
    text = f"{names}: which iteration (ProfilerStep#N); default: the last one"
    parser.add_argument("--step", type=int, metavar="N", help=text)
    text = f"{names}: where waits were not recorded, for what ended last, or for all that ended before; default: last"
    parser.add_argument("--waits", choices=["last", "all"], default="last", help=text)
    text = f"{names}: bytes of what the profile has none of, as ncclAllReduce=64MB; may be repeated"
    parser.add_argument("--bytes", metavar="NAME=SIZE", action="append", default=[], help=text)


def run_convert(arguments: argparse.Namespace) -> list[str]:
    """Convert; warnings, and of a cluster's trace what the audit says. Raises ConfigError."""
    output = Path(arguments.output)
    if arguments.format == "ns3":
        from pdes.convert.ns3 import convert

        return convert(arguments.input, output, is_native=arguments.compatibility == "none")
    if arguments.format == "flows":
        from pdes.convert.flows import Links
        from pdes.convert.flows import convert as convert_flows

        return convert_flows(arguments.input, output, Links(arguments.k, arguments.rate, arguments.delay))
    if arguments.format == "sailor":
        from pdes.convert.sailor import convert as convert_sailor

        return convert_sailor(arguments.input, output, arguments.profiles)
    if arguments.format == "cluster":
        from pdes.convert.cluster.machines import Given
        from pdes.convert.cluster.trace import convert as convert_cluster

        given = Given(arguments.servers, arguments.gpus_per_server, arguments.gpu, tuple(arguments.pool))
        return convert_cluster(arguments.input, output, arguments.trace_format, given, arguments.profiles)
    if arguments.format in PROFILES:
        return _run_profile(arguments, output)
    if arguments.format in LAUNCHES:
        return _run_launch(arguments, output)
    if arguments.workload is None:
        raise ConfigError(f"convert {arguments.format}", "no --workload", "a trace that is to run on the topology")
    form = arguments.workload_format or USUAL_FORMAT[arguments.format]
    source, workload = Path(arguments.input), Path(arguments.workload)
    if arguments.format == "astra-sim":
        from pdes.convert.astra_network import convert as convert_astra

        groups, system = (Path(name) if name else None for name in (arguments.communicators, arguments.system))
        return convert_astra(source, output, workload, form, groups, system)
    if arguments.format == "simai":
        from pdes.convert.simai_topology import convert as convert_simai

        return convert_simai(source, output, workload, form)
    from pdes.convert.htsim_topology import convert as convert_htsim

    return convert_htsim(source, output, workload, form)


def _fabric(arguments: argparse.Namespace) -> Fabric:
    if arguments.gpus is not None and not 1 <= arguments.gpus <= 2**20:
        raise ConfigError("--gpus", str(arguments.gpus), "a number of GPUs from 1")
    return Fabric(arguments.topology, arguments.gpus_per_server, arguments.nic_rate)


def _run_launch(arguments: argparse.Namespace, output: Path) -> list[str]:
    from pdes.convert.launch.job import write_job
    from pdes.convert.launch.megatron import read_megatron
    from pdes.convert.launch.nemo import read_nemo

    variables = dict(word.partition("=")[::2] for word in arguments.variable)
    source, fabric = Path(arguments.input), _fabric(arguments)
    said: list[str] = []
    if arguments.format == "megatron":
        job, said = read_megatron(source, variables)
    else:
        job = read_nemo(source)
    return said + write_job(job, output, arguments.gpu or "h100", fabric, arguments.format, arguments.gpus)


def _run_profile(arguments: argparse.Namespace, output: Path) -> list[str]:
    from pdes.convert.profile.kineto import read_kineto
    from pdes.convert.profile.nsight import read_nsight
    from pdes.convert.profile.run import Wanted, convert_profiles

    forms = {
        "kineto": ("kineto", read_kineto, r"\.json(\.gz)?$"),
        "nsight": ("nsight", read_nsight, r"\.(sqlite|db)$"),
    }
    fabric = _fabric(arguments)
    wanted = Wanted(arguments.step, arguments.gpus, tuple(arguments.bytes), arguments.waits == "all")
    return convert_profiles(Path(arguments.input), output, wanted, fabric, forms[arguments.format])


def add_export(parser: argparse.ArgumentParser) -> None:
    """Arguments of export."""
    text = "; ".join(f"{name}: {what}" for name, what in EXPORTED.items())
    parser.add_argument("format", choices=list(EXPORTED), help=text)
    parser.add_argument("input", metavar="INPUT", help="a config, or a result folder")
    parser.add_argument("-o", "--output", metavar="OUTPUT", required=True, help="the file, or the prefix of the files")
    text = "override one key of the config; may be repeated"
    parser.add_argument("--set", metavar="TABLE.KEY=VALUE", dest="overrides", action="append", default=[], help=text)
