"""Gavel's traces: fields between tabs, no header; what a job has to do in steps, not in seconds.

How fast steps are is in `gavel_tables`. A server has one GPU, as in Gavel's simulator, unless the command says another
number.

The number of fields tells the order. Ten: job type, command, working directory, name of the option for steps, whether
it needs data, steps, scale factor (GPUs), weight of its priority, SLO, arrival (s). Seven, as in msr_*: type, command,
option, needs data, steps, arrival, scale factor; six: without "needs data". Eleven, as Shockwave has it: a mode behind
the scale factor. Jobs have no id: they get the number of their line, from 0, as Gavel numbers them.
"""

from pathlib import Path
from typing import NamedTuple

from pdes.convert.cluster.audit import LEFT_OUT, Finding
from pdes.convert.cluster.companions import beside
from pdes.convert.cluster.fields import PER_UNIT, is_nothing, millionths
from pdes.convert.cluster.intake import BAD_PRIORITY, BAD_STEPS, MOST_PRIORITY, MOST_STEPS, Intake
from pdes.convert.cluster.jobs import NONE, Job
from pdes.convert.cluster.lines import OTHER_COLUMNS, Head, table_lines
from pdes.convert.cluster.readers.gavel_tables import is_rates, is_specs, read_rates, read_specs


class Order(NamedTuple):
    """Where the fields are. priority: NONE if there is none."""

    steps: int
    gpus: int
    arrival: int
    priority: int = NONE


ORDERS = {6: Order(3, 5, 4), 7: Order(4, 6, 5), 10: Order(5, 6, 9, 7), 11: Order(5, 6, 10, 8)}
NO_STEPS = "no steps"


def matches(head: Head) -> bool:
    """Whether one of the first lines has numbers where a trace has them."""
    return any(_is_one(line.split("\t")) for line in head.lines)


def _is_one(words: list[str]) -> bool:
    order = ORDERS.get(len(words))
    return order is not None and all(millionths(words[k].strip()) is not None for k in order[:3])


def read(path: Path, intake: Intake) -> None:
    """All jobs, without durations; the speeds and the list of GPUs that belong to them, if there are."""
    intake.per_server = 1
    rates, specs = intake.profiles or beside(path, is_rates), beside(path, is_specs)
    if rates is not None:
        intake.rates = read_rates(rates)
        if specs is not None and not intake.has_machines:
            intake.machines = {(gpu, 1): n for gpu, n in read_specs(specs).items()}
            intake.machine_file = specs.name
    for n_before, (line, words) in enumerate(table_lines(path, intake.audit, "\t")):
        order = ORDERS.get(len(words))
        if order is None:
            found = f"{len(words)} instead of {', '.join(map(str, ORDERS))}"
            intake.audit.add(Finding(OTHER_COLUMNS, path.name, line, "", "", found, LEFT_OUT))
            continue
        intake.begin(line, str(n_before))
        submit_us = intake.submit("arrival_time", words[order.arrival], millionths)
        n_gpu = intake.gpus("scale_factor", words[order.gpus])
        steps = _steps(words[order.steps], intake)
        priority = 0
        if order.priority != NONE:
            priority = intake.whole("priority_weight", words[order.priority], BAD_PRIORITY, MOST_PRIORITY, 0)
        if submit_us is not None and n_gpu is not None and steps is not None:
            job = Job(line, "", submit_us, NONE, n_gpu, priority=priority, kind=words[0], steps=steps)
            intake.take(job, "arrival_time")


def _steps(word: str, intake: Intake) -> int | None:
    if is_nothing(word):
        intake.wrong(NO_STEPS, "total_steps")
        return None
    value = millionths(word)
    if value is None or value <= 0 or value % PER_UNIT or value > MOST_STEPS * PER_UNIT:
        intake.wrong(BAD_STEPS, "total_steps", f'"{word[:60]}"')
        return None
    return value // PER_UNIT
