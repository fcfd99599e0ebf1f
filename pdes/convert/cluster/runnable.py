"""Which jobs of a trace can run where, by the speeds that belong to it, and how long they take there."""

from collections.abc import Sequence

from pdes.convert.cluster.audit import LEFT_OUT, Finding, quoted
from pdes.convert.cluster.fields import MOST, PER_UNIT
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.jobs import NONE, JobTable
from pdes.convert.cluster.machines import Pool
from pdes.convert.cluster.rates import Rates
from pdes.errors import ConfigError

NO_RATE, RATE_ON_SOME = "no speed on the cluster's GPUs", "no speed on some types of GPU"
TOO_LONG = "more than three hundred years"


def check_pools(rates: Rates, pools: Sequence[Pool]) -> None:
    """ConfigError: a pool's type has no rates."""
    known = rates.types()
    for pool in pools:
        if pool.gpu not in known:
            found = f"{pool.servers:,} servers with {quoted(pool.gpu)}, which {rates.file} has no speeds of"
            raise ConfigError("types of GPU", found, f"{', '.join(known)}: --pool {known[0]}=36 or --gpu {known[0]}")


def restrict(intake: Intake, rates: Rates, pools: Sequence[Pool], file: str) -> bytearray:
    """1 for each job with steps that no pool has a speed of. Jobs with speeds on some types get the fastest of these.

    Findings say so. Written: types of GPU of the intake's table.
    """
    table, room = intake.table, _rooms(pools)
    kinds, types = table.kind.names(), table.gpu_type.names()
    column, is_left_out = table.gpu_type.column, bytearray(len(table))
    for i, (job, line) in enumerate(table.lines.items()):
        if table.steps[i] == NONE or types[column[i]]:
            continue
        kind, gpus = kinds[table.kind.column[i]], table.gpus[i]
        fits = [gpu for gpu, n in room.items() if n >= gpus]
        usable = [gpu for gpu in fits if (kind, gpus, gpu) in rates.table]
        what = f"{quoted(kind)} on {gpus} GPUs"
        if fits and not usable:
            intake.audit.add(Finding(NO_RATE, file, line, job, "", what, LEFT_OUT))
            is_left_out[i] = 1
            continue
        best = max(usable, key=lambda gpu: rates.table[kind, gpus, gpu], default="")
        if best and table.steps[i] / rates.table[kind, gpus, best] * PER_UNIT > MOST:
            intake.audit.add(Finding(TOO_LONG, file, line, job, "", f"{table.steps[i]} steps of {what}", LEFT_OUT))
            is_left_out[i] = 1
        elif len(usable) < len(fits):
            column[i] = table.gpu_type.codes.setdefault(best, len(table.gpu_type.codes))
            types = table.gpu_type.names()
            intake.audit.add(Finding(RATE_ON_SOME, file, line, job, "", what, f"taken as {best}"))
    return is_left_out


def durations(table: JobTable, rates: Rates, pools: Sequence[Pool]) -> list[int]:
    """Microseconds of each job on the fastest type of the pools that has room, or NONE."""
    room, kinds, types = _rooms(pools), table.kind.names(), table.gpu_type.names()
    found = list(table.duration_us)
    for i, steps in enumerate(table.steps):
        if steps != NONE and found[i] == NONE:
            own, kind, gpus = types[table.gpu_type.column[i]], kinds[table.kind.column[i]], table.gpus[i]
            allowed = [gpu for gpu, n in room.items() if n >= gpus and own in ("", gpu)]
            best = max((rates.table.get((kind, gpus, gpu), 0.0) for gpu in allowed), default=0.0)
            found[i] = max(round(steps / best * PER_UNIT), 1) if best else NONE
    return found


def _rooms(pools: Sequence[Pool]) -> dict[str, int]:
    room: dict[str, int] = {}
    for pool in pools:
        room[pool.gpu] = max(room.get(pool.gpu, 0), pool.gpus)
    return room
