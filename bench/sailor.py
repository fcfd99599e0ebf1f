"""Sailor's measured plans: iteration time and peak memory, measured and simulated, plan by plan.

    python bench/sailor.py [--plans FOLDER --profiles FOLDER] [--nic-rate GPU=RATE ...] [--set KEY=VALUE ...]
                           [--kernels] [--only TEXT] [--out FOLDER]

Measurements are Sailor's (Strati et al., SOSP'25; github.com/eth-easl/sailor cf2c8e3, MIT licence): OPT-350 and
GPT-Neo-2.7 on GH200 nodes of Alps Clariden, OPT-350 on servers with RTX 3090, RTX 2080 and Titan RTX ("mit").
sailor_plans.csv has the plans, a line each; stages of `groups` are apart by "|", and "GH-96:4*8" is eight replicas on
four GPUs of a type each. sailor_times.csv has what was measured of a layer; GPT-Neo's times on GH200 follow from those
on A100 and OPT-350's on both (`sailor_transfer`). With --plans all plan_config*.json below a folder are taken instead,
with the profiles of one model: a folder such as profiles/OPT-350.

Each plan is what `pdes-sim convert sailor` makes of it, run in flow mode. --nic-rate: links of a type's servers, in the
place of the data sheet's. --kernels: without what was measured of layers, kernel by kernel.
"""

import argparse
import csv
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from cases import print_last
from models.compute.memory import memory_of, stage_parameters
from models.workload.compiler.job import Job
from pdes.config import load_config
from pdes.convert.sailor import Group, Plan, gpus_of, read_plan, times_of, write_job
from pdes.convert.sailor_sheets import GPUS, MODELS
from pdes.convert.sailor_transfer import Rows, transferred
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job
from runs import simulate

HERE = Path(__file__).resolve().parent
GIB = 2**30


class Measured(NamedTuple):
    """A plan, what was measured of it, and times of layers by type of GPU. memory_bytes, gradients_s 0: not given.

    gradients_s: what the sum of gradients behind the last microbatch took.
    """

    name: str
    model: str
    plan: Plan
    iteration_s: float
    memory_bytes: int
    gradients_s: float
    times: dict[str, Rows]

    @property
    def group(self) -> str:
        """The set that its error counts in."""
        return f"{self.name.partition(' ')[0]} {self.model}, microbatch {self.plan.microbatch}"


class Simulated(NamedTuple):
    """An iteration, the fullest GPU's memory, and what is known of the links, see `summed_rate`."""

    seconds: float
    memory_bytes: int
    summed_gb_per_s: float


def groups_of(text: str) -> list[Group]:
    """ "RTX-3090:8 RTX-2080:8*2": groups of a stage."""
    found = []
    for one in text.split():
        gpu, _, rest = one.partition(":")
        tp, _, n = rest.partition("*")
        found += [Group(gpu, int(tp))] * int(n or 1)
    return found


def own_plans() -> list[Measured]:
    """Those of our two files."""
    times: dict[tuple[str, str], Rows] = defaultdict(list)
    with (HERE / "sailor_times.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            model, gpu, *rest = row.values()
            times[model, gpu].append(tuple(rest))
    found = []
    with (HERE / "sailor_plans.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            stages = [groups_of(stage) for stage in row["groups"].split("|")]
            layers = [int(n) for n in row["layers"].split()]
            plan = Plan(stages, layers, int(row["microbatch"]), int(row["global_batch"]))
            own = {gpu: _times_of(times, row["model"], gpu) for gpu in gpus_of(plan)}
            name = f"{row['cluster']} {row['plan']}"
            seconds = float(row["iteration_s"]), float(row["gradients_s"])
            found.append(Measured(name, row["model"], plan, seconds[0], int(row["memory_bytes"]), seconds[1], own))
    return found


def _times_of(times: Mapping[tuple[str, str], Rows], model: str, gpu: str) -> Rows:
    """As measured; else as another type has them."""
    if (model, gpu) in times:
        return times[model, gpu]
    by_model: dict[str, dict[str, Rows]] = defaultdict(dict)
    for (name, one), rows in times.items():
        by_model[name][one] = rows
    own = by_model.pop(model, {})
    found = transferred(gpu, own, by_model)
    return [] if found is None else found.rows


def plans_in(folder: Path, profiles: Path) -> list[Measured]:
    """All plan_config*.json below a folder; what has no `real` was not measured, and is left out."""
    name, found = profiles.resolve().name, []
    for path in sorted(folder.rglob("plan_config*.json")):
        given = json.loads(path.read_text())
        if "real" in given:
            plan = read_plan(path, MODELS[name])
            times, _ = times_of(profiles, MODELS[name], gpus_of(plan))
            title = f"{folder.resolve().name} {path.stem.removeprefix('plan_config_')}"
            memory_bytes, gradients_s = int(given.get("max_mem", 0)), float(given.get("red_grads", 0))
            found.append(Measured(title, name, plan, float(given["real"]), memory_bytes, gradients_s, times))
    return found


def simulated(one: Measured, out: Path, rates: dict[str, str], overrides: Sequence[str] = ()) -> Simulated:
    """Run a plan."""
    config = out / f"{one.model}-{one.name.replace(' ', '-')}.toml"
    write_job(one.plan, MODELS[one.model], one.times, config, f"{one.name}, measured by Sailor's authors.")
    text = config.read_text()
    for gpu, rate in rates.items():
        head, name, rest = text.partition(f'gpu = "{GPUS[gpu].name}"\n')
        text = head + name + rest.replace(f'nic_rate = "{GPUS[gpu].nic_rate}"', f'nic_rate = "{rate}"')
    config.write_text(text)
    given = load_config(config, list(overrides))
    job = checked_job(given, build_topology(given))
    stages = range(job.layout.pp)
    need = max(memory_of(job.shape, job.layout, stage, job.memory_schedule).total_bytes for stage in stages)
    done = simulate(config, ["simulation.iterations=2", *overrides], out / config.stem)
    return Simulated(done.result["iteration_time_ps"][-1] / 1e12, need, summed_rate(one, job))


def summed_rate(one: Measured, job: Job) -> float:
    """GB/s of a NIC while gradients were summed, as measured: of a ring over the replicas, in the fullest stage."""
    groups, dp = [group for stage in one.plan.stages for group in stage], len(one.plan.stages[0])
    if dp == 1 or not one.gradients_s:
        return 0.0
    per_nic = max(1 if GPUS[group.gpu].has_own_nics else group.tp for group in groups)
    held = max(stage_parameters(job.shape, job.layout, i).dense_parameters for i in range(job.layout.pp))
    return held * 4 * per_nic * 2 * (dp - 1) / dp / one.gradients_s / 1e9


def main(arguments: list[str]) -> int:
    """Run the plans and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=Path)
    parser.add_argument("--profiles", type=Path)
    parser.add_argument("--nic-rate", action="append", default=[], metavar="GPU=RATE")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--only", default="", help="plans whose name, model and microbatch have this in them")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if (given.plans is None) != (given.profiles is None):
        parser.error("--plans and --profiles go together")
    plans = own_plans() if given.plans is None else plans_in(given.plans, given.profiles)
    plans = [one for one in plans if given.only in f"{one.name} {one.group}"]
    plans = [one._replace(times=dict.fromkeys(one.times, [])) if given.kernels else one for one in plans]
    if not plans:
        parser.error("no plan with a measured time")
    rates = dict(text.split("=", 1) for text in given.nic_rate)
    out = given.out or Path(tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    table = Table(box=None)
    headings = ("plan", "model", "measured s", "simulated s", "error", "memory GiB", "modelled GiB", "error")
    for heading in (*headings, "summed at GB/s"):
        table.add_column(heading, justify="left" if heading in ("plan", "model") else "right", no_wrap=True)
    errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in plans:
        seconds, need, rate = simulated(one, out, rates, given.overrides)
        error, of_memory = seconds / one.iteration_s - 1, need / (one.memory_bytes or need) - 1
        errors[one.group].append((error, of_memory))
        table.add_row(
            one.name, one.model, f"{one.iteration_s:.3f}", f"{seconds:.3f}", f"{100 * error:+.1f} %",
            f"{one.memory_bytes / GIB:.2f}", f"{need / GIB:.2f}", f"{100 * of_memory:+.1f} %",
            f"{rate:.3g}" if rate else "",
        )  # fmt: skip
    sets = Table(box=None)
    for heading in ("set", "plans", "MAPE of time", "MAPE of memory"):
        sets.add_column(heading, justify="left" if heading == "set" else "right", no_wrap=True)
    figures = {}
    for name, found in errors.items():
        means = [100 * sum(abs(pair[k]) for pair in found) / len(found) for k in (0, 1)]
        sets.add_row(name, str(len(found)), *(f"{mean:.1f} %" for mean in means))
        figures[name] = {"plans": len(found), "time_mape": means[0], "memory_mape": means[1]}
    console = Console(width=140)
    console.print(table)
    console.print(sets)
    print_last(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
