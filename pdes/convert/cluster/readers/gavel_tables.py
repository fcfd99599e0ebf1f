"""What belongs to Gavel's traces: simulation_throughputs.json, steps per second, and its lists of GPUs.

Throughputs: by type of GPU, then by "('KIND', GPUS)"; "null" is alone on them, 0.0 where it does not fit into memory,
other keys are pairs that share a GPU, which are left out. TYPE_unconsolidated: over more servers than needed. A list of
GPUs, as msr_cluster_specs.json: names of clusters, each with "V100S:P100S:K80S".
"""

import ast
import re
from pathlib import Path

from pdes.convert.cluster.audit import quoted
from pdes.convert.cluster.lines import Head
from pdes.convert.cluster.rates import Key, Rates
from pdes.errors import ConfigError
from pdes.files import read_json

TYPES = ("v100", "p100", "k80")  # the order of its lists of GPUs
APART = "_unconsolidated"
ACCEPTED = """steps per second as Gavel's simulation_throughputs.json: {"v100": {"('KIND', 1)": {"null": 12.5}}}"""
SPECS_ACCEPTED = 'one cluster, as {"NAME": ["36:36:36"]}, GPUs v100:p100:k80; or --pool v100=36'
MOST_GPUS = 10**6
LEAST, MOST = 1e-9, 1e12
_RATE = re.compile(r"""\{\s*"\w+"\s*:\s*\{\s*"\((?:'[^']*'|\\".*?\\"), \d+\)"\s*:\s*\{""")
_SPECS = re.compile(r'\{\s*"[^"]*"\s*:\s*\[\s*"\d+:\d+:\d+"')


def is_rates(head: Head) -> bool:
    """Whether the file begins as a table of throughputs."""
    return _RATE.match(head.text.lstrip()) is not None


def is_specs(head: Head) -> bool:
    """Whether the file begins as a list of GPUs."""
    return _SPECS.match(head.text.lstrip()) is not None


def read_rates(path: Path) -> Rates:
    """All rates above 0. ConfigError names the file, and the line or key that is none."""
    raw = _json(path, ACCEPTED)
    table: dict[Key, float] = {}
    spread: dict[Key, float] = {}
    for gpu, jobs in raw.items():
        if not isinstance(jobs, dict):
            raise ConfigError(f'{path}, "{gpu}"', f"found {quoted(jobs)}", ACCEPTED)
        into, name = (spread, gpu.removesuffix(APART)) if gpu.endswith(APART) else (table, gpu)
        for key, alone in jobs.items():
            where = f'{path}, "{gpu}", {quoted(key)}'
            kind, n_gpu = _job(key, where)
            rate = alone.get("null") if isinstance(alone, dict) else None
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not (rate == 0 or LEAST <= rate <= MOST):
                raise ConfigError(f'{where}, "null"', f"found {quoted(rate)}", "steps per second, 0 or 1e-9 to 1e12")
            if rate:
                into[kind, n_gpu, name] = float(rate)
    if not table:
        raise ConfigError(str(path), "has no speed above 0", ACCEPTED)
    return Rates(path.name, table, {key: rate for key, rate in spread.items() if key in table and key[1] > 1})


def read_specs(path: Path) -> dict[str, int]:
    """GPUs by type. ConfigError: it is not one cluster."""
    raw = _json(path, SPECS_ACCEPTED)
    every = [text for texts in raw.values() for text in (texts if isinstance(texts, list) else [texts])]
    match = re.fullmatch(r"(\d{1,7}):(\d{1,7}):(\d{1,7})", str(every[0])) if len(every) == 1 else None
    if match is None:
        found = f"found {quoted(every[0])}" if len(every) == 1 else f"found {len(every)} clusters"
        raise ConfigError(str(path), found, SPECS_ACCEPTED)
    counts = {gpu: int(n) for gpu, n in zip(TYPES, match.groups(), strict=True) if int(n)}
    if not counts or max(counts.values()) > MOST_GPUS:
        raise ConfigError(str(path), f"found {quoted(every[0])}", f"1 to {MOST_GPUS:,} GPUs of at least one type")
    return counts


def _json(path: Path, accepted: str) -> dict[str, object]:
    raw = read_json(path)
    if not isinstance(raw, dict):
        raise ConfigError(str(path), f"found {quoted(raw)}", accepted)
    return raw


def _job(key: str, where: str) -> tuple[str, int]:
    try:
        kind, n_gpu = ast.literal_eval(key)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        kind, n_gpu = None, None
    if not isinstance(kind, str) or type(n_gpu) is not int or not 1 <= n_gpu <= MOST_GPUS:
        raise ConfigError(where, "is no kind of job and number of GPUs", ACCEPTED)
    return kind, n_gpu
