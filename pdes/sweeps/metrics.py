"""What runs are compared by: of the training iterations, the flows, the cluster, or one's own."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pdes.config.sweep import MetricConfig
from pdes.errors import ConfigError, SimError, suggestion
from pdes.files import from_python
from pdes.units import PS_PER_S, US_PER_S, format_duration, format_long_duration, shown

LONG_S = 600.0  # from here on times are shown as hours and days


class Tables(Protocol):
    """Of a result folder, as `pdes.Result` has them. flows: an Arrow table."""

    @property
    def tables(self) -> list[str]: ...
    @property
    def flows(self) -> Any: ...


class Metric(NamedTuple):
    """unit: "s", "share", or what it is counted in. sign: 1 if less is better, -1 if more is, 0 if neither.

    path: in result.json. function: (file, name). Neither: one of the flows.
    """

    name: str
    unit: str
    sign: int
    path: str = ""
    function: tuple[str, str] | None = None

    def show(self, value: float) -> str:
        """With its unit."""
        if not math.isfinite(value):
            return "-"
        sign, size = ("-" if value < 0 else ""), abs(value)
        if self.unit == "s":
            if size >= LONG_S:
                return sign + format_long_duration(size * US_PER_S)
            return sign + format_duration(round(size * PS_PER_S), 4)
        return f"{sign}{100 * size:.3g} %" if self.unit == "share" else f"{sign}{size:,.4g} {self.unit}".rstrip()


TRAINING = (Metric("iteration", "s", 1),)
FLOWS = (
    Metric("fct_mean", "s", 1), Metric("fct_p50", "s", 1), Metric("fct_p99", "s", 1), Metric("fct_max", "s", 1),
    Metric("slowdown_mean", "", 1), Metric("slowdown_p99", "", 1),
)  # fmt: skip
NETWORK = (
    Metric("active", "s", 1), Metric("packet_hops", "", 0, "packet_hops"),
    Metric("ecn_marks", "", 0, "network.ecn_marks"), Metric("pause_frames", "", 0, "network.pause_frames"),
)  # fmt: skip
CLUSTER = (
    Metric("completion_mean", "s", 1, "completion_s.mean"), Metric("completion_p99", "s", 1, "completion_s.p99"),
    Metric("wait_mean", "s", 1, "wait_s.mean"), Metric("wait_p99", "s", 1, "wait_s.p99"),
    Metric("goodput", "share", -1, "goodput"), Metric("held_share", "share", -1, "held_share"),
)  # fmt: skip
OF_PACKETS, OF_CLUSTERS = (*TRAINING, *FLOWS, *NETWORK), CLUSTER


def metrics_of(own: Sequence[MetricConfig], is_cluster: bool, folder: Path, where: str) -> list[Metric]:
    """All that there are: the built-in ones and one's own. ConfigError: one of these is none."""
    found = list(OF_CLUSTERS if is_cluster else OF_PACKETS)
    for i, config in enumerate(own):
        place = f"{where}: [[sweep.metric]] {i + 1}"
        if any(metric.name == config.name for metric in found):
            raise ConfigError(place, f"there is a metric {shown(config.name)} already", "another name")
        function = None
        if config.function is not None:
            if is_cluster:
                raise ConfigError(place, "a function of a run of [cluster]", "`path`: such runs leave no result folder")
            file, colon, name = config.function.rpartition(":")
            if not colon or not file.endswith(".py") or not (folder / file).is_file():
                raise ConfigError(place, f"found {shown(config.function)}", "file.py:NAME, and the file is there")
            function = (str(folder / file), name)
            _function(*function)
        sign = 1 if config.better == "lower" else -1
        found.append(Metric(config.name, config.unit, sign, config.path or "", function))
    return found


def chosen(names: Sequence[str], known: Sequence[Metric], where: str) -> list[Metric]:
    """By name. ConfigError: there is no such metric."""
    by_name = {metric.name: metric for metric in known}
    for name in names:
        if name not in by_name:
            accepted = f"Accepted: {', '.join(by_name)}, or a [[sweep.metric]]{suggestion(name, by_name)}"
            raise ConfigError(f"{where}: [sweep] metrics", f"found {shown(name)}", accepted)
    return [by_name[name] for name in dict.fromkeys(names)]


def measure(metrics: Sequence[Metric], summary: Mapping[str, Any], result: "Tables | None") -> dict[str, float]:
    """What the run has of them. summary: result.json. result: the folder; None: there is none.

    SimError: a function of one's own has failed.
    """
    found: dict[str, float] = {}
    of_flows = _of_flows(result) if result is not None and any(m in FLOWS for m in metrics) else {}
    for metric in metrics:
        if metric.function is not None:
            value = _called(metric.function, result)
        elif metric.path:
            value = _at(summary, metric.path)
        elif metric.name == "iteration":
            times_ps = summary.get("iteration_time_ps") or [math.nan]
            kept = times_ps[1:] or times_ps  # the first one fills what later ones find full
            value = sum(kept) / len(kept) / PS_PER_S
        elif metric.name == "active":
            begin_ps, end_ps = summary.get("active_ps") or (0, math.nan)
            value = (end_ps - begin_ps) / PS_PER_S
        else:
            value = of_flows.get(metric.name, math.nan)
        if math.isfinite(value):
            found[metric.name] = float(value)
    return found


def _of_flows(result: "Tables") -> dict[str, float]:
    import numpy as np

    if "flows" not in result.tables:
        return {}
    table = result.flows
    columns = (table.column(name) for name in ("fct_ps", "ideal_fct_ps"))
    fct, ideal = (column.to_numpy(zero_copy_only=False).astype(float) for column in columns)
    done = np.isfinite(fct) & (fct >= 0)
    fct, ideal = fct[done], ideal[done]
    if not len(fct):
        return {}
    seconds, slowdown = fct / PS_PER_S, fct / np.maximum(ideal, 1)
    return {
        "fct_mean": seconds.mean(), "fct_p50": np.percentile(seconds, 50), "fct_p99": np.percentile(seconds, 99),
        "fct_max": seconds.max(), "slowdown_mean": slowdown.mean(), "slowdown_p99": np.percentile(slowdown, 99),
    }  # fmt: skip


def _at(summary: Any, path: str) -> float:
    """A number at a path such as jobs.0.slowdown, NaN if there is none."""
    for key in path.split("."):
        if isinstance(summary, list) and key.isdigit() and int(key) < len(summary):
            summary = summary[int(key)]
        elif isinstance(summary, Mapping) and key in summary:
            summary = summary[key]
        else:
            return math.nan
    return float(summary) if isinstance(summary, int | float) else math.nan


def _function(file: str, name: str) -> Callable[[Any], Any]:
    found = from_python(Path(file), name)
    if not callable(found):
        raise ConfigError(file, f"has no function {shown(name)}", "the name of one in it")
    return found


def _called(function: tuple[str, str], result: "Tables | None") -> float:
    try:
        return float(_function(*function)(result))
    except SimError:
        raise
    except Exception as error:
        raise SimError(f"{':'.join(function)}: {type(error).__name__}: {error}") from error
