"""Claims about `pdes-sim calibrate`: constants that made the measurements are found again, and configs take them."""

import csv
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.workload.nccl.calibration import calibration_of
from models.workload.nccl.in_server import in_server_ps
from models.workload.nccl.own_type import in_server_type
from pdes.calibrating.alignment import align
from pdes.calibrating.collectives import Measured, Shape, bus_share, read_collectives, table_of
from pdes.calibrating.device import with_fit
from pdes.calibrating.fit import Problem, calibrate, misorder, pairs_of, share_in_order
from pdes.calibrating.iterations import IterationModel, MeasuredRun, config_with, read_iterations
from pdes.cli import main
from pdes.config import config_from_dict, load_config
from pdes.config.calibration import Alignment
from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.result import Result
from pdes.scenario import build_scenario
from pdes.scenario.devices import own_devices

CONFIG = """\
[topology]
kind = "roft"
gpus = 16
nic_rate = "400Gbps"
spine_rate = "400Gbps"
[workload]
kind = "training"
[workload.model]
layers = 4
hidden = 1024
heads = 8
vocabulary = 1024
sequence = 512
[workload.parallel]
tp = 2
dp = 8
pp = 1
[workload.compute]
gpu = "h100"
[wormhole]
mode = "flow"
"""
TRUE = {
    "gemm_gamma": 1.7, "attention_gamma": 2.4, "memory_gamma": 1.9, "launch_ps": 7_000_000.0,
    "dispatch_ps": 9_000_000.0, "overlap_loss_frac": 0.3,
}  # fmt: skip


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def problem(measured: np.ndarray, work: np.ndarray, group: list[str] | None = None) -> Problem:
    """Times are work @ constants."""
    n = work.shape[1]
    return Problem(
        tuple("abcdef"[:n]), np.ones(n), np.full(n, 1e-3), np.full(n, 1e3), np.full(n, 50.0), measured,
        group or [""] * len(measured), lambda constants, rows: work[rows] @ constants, np.ones(len(measured)),
    )  # fmt: skip


# The fit


def test_constants_that_made_the_times_are_found_again() -> None:
    draw = np.random.default_rng(1)
    work, true = draw.lognormal(0, 1.5, (40, 3)), np.array([0.5, 7.0, 2.0])
    found = calibrate(problem(work @ true, work))
    assert found.constants == pytest.approx(true, rel=1e-3)
    assert found.chosen.weight == 0 and found.chosen.error < 1e-3 < np.abs(found.before).mean()


def test_what_is_held_out_has_no_part_in_its_own_prediction() -> None:
    """Two sources that differ by a factor of two: each is predicted by the other's constant."""
    work = np.ones((6, 1))
    found = calibrate(problem(np.array([1.0, 1, 1, 2, 2, 2]), work, ["a"] * 3 + ["b"] * 3), (0.0,))
    assert found.chosen.held_out == pytest.approx([1, 1, 1, -0.5, -0.5, -0.5], rel=1e-3)


def test_the_penalty_of_an_order_is_equation_3s_and_decides_where_times_alone_do_not() -> None:
    """Far from zero its square is max(0, T_i - T_j). Two layouts of one time by the least squares come apart by it."""
    assert misorder(np.array([5.0, 1.0]), np.array([[0, 1]])) ** 2 == pytest.approx([4.0], rel=0.01)
    assert misorder(np.array([1.0, 5.0]), np.array([[0, 1]])) == pytest.approx([0.0])
    measured = np.array([1.0, 1.05, 4.0, 0.25])  # a alone is slower than b; the last two pull a up and b down
    work = np.array([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    times = {w: calibrate(problem(measured, work), (w,)).constants for w in (0.0, 10.0)}
    assert times[0.0][0] > times[0.0][1] * 1.2 and times[10.0][0] < times[10.0][1] * 1.05


def test_pairs_go_up_and_are_all_of_few_and_some_of_many() -> None:
    measured = np.array([3.0, 1.0, 2.0, 2.0])
    assert sorted(map(tuple, pairs_of(measured).tolist())) == [(1, 0), (1, 2), (1, 3), (2, 0), (3, 0)]
    many = np.arange(5000.0)
    pairs = pairs_of(many)
    assert 5000 < len(pairs) <= 20_000 and (many[pairs[:, 0]] < many[pairs[:, 1]]).all()
    assert share_in_order(many, many) == 1 and share_in_order(-many, many) == 0


# Kernels


def test_kernel_times_give_the_constants_that_made_them(tmp_path: Path) -> None:
    """And a config that names the file has them: every kernel of it takes as long as was measured."""
    large = CONFIG.replace("hidden = 1024", "hidden = 8192").replace("sequence = 512", "sequence = 8192")
    config = write(tmp_path, "c.toml", large)
    kernels, own, target = tmp_path / "k.csv", tmp_path / "own.toml", tmp_path / "out.toml"
    own.write_text(large.replace("[wormhole]", f"[workload.devices.h100]\nconstants = {constants_text()}\n[wormhole]"))
    assert main(["export", "kernels", str(own), "-o", str(kernels)]) == 0
    assert main(["calibrate", str(config), "--kernels", str(kernels), "-o", str(target)]) == 0
    tables, _ = read_toml(target)
    found = tables["workload"]["devices"]["h100"]["constants"]
    expected = {name: TRUE[name] for name in ("gemm_gamma", "attention_gamma", "memory_gamma")}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=2e-3)
    assert found["launch"].endswith("ps") and float(found["launch"][:-2]) == pytest.approx(TRUE["launch_ps"], rel=0.01)
    source = tables["calibration"]["source"][0]  # a part that is held out may have all kernels of attention
    assert source["error_fitted"] < 1e-3 < source["error_held_out"] < 0.05 < source["error_before"]
    config.write_text(f'[simulation]\ncalibration = "out.toml"\n{large}')
    again = tmp_path / "again.csv"
    assert main(["export", "kernels", str(config), "-o", str(again)]) == 0
    times = [{tuple(row)[:7]: float(row[7]) for row in csv.reader(path.read_text().splitlines()) if row[7] != "time_us"}
             for path in (kernels, again)]  # fmt: skip
    assert times[1] == pytest.approx(times[0], rel=2e-3)


def constants_text() -> str:
    given = {name: TRUE[name] for name in ("gemm_gamma", "attention_gamma", "memory_gamma")}
    pairs = [*(f"{name} = {value}" for name, value in given.items()), 'launch = "7us"', 'dispatch = "0s"']
    return "{" + ", ".join(pairs) + "}"


# Collectives


def test_collectives_of_a_known_type_are_found_again_from_another_one() -> None:
    """Times by the H200's constants, fitted from the A100's with the H200's protocols: they predict all sizes alike."""
    true = calibration_of("a100")
    kinds = [(op, n) for op in ("all-reduce", "all-gather", "send-receive") for n in (4, 8)]
    rows = [Measured(op, 2**i, n, "auto", float(in_server_ps(true, op, 2**i, n)))
            for op, n in kinds for i in range(12, 34, 2)]  # fmt: skip
    start = Shape(calibration_of("v100"), tuple(rows))
    found = calibrate(start.problem(), (0.0,))
    assert np.abs(found.before).mean() > 0.15 and found.chosen.error < 0.01


def test_an_end_of_a_protocol_moves_to_where_it_was_measured() -> None:
    true = calibration_of("a100")
    regimes = tuple(replace(r, up_to_bytes=2**25) if r.up_to_bytes == 2**23 else r for r in true.regimes)
    other = replace(true, regimes=regimes)
    rows = [Measured("all-reduce", 2**i, 8, "auto", float(in_server_ps(other, "all-reduce", 2**i, 8)))
            for i in range(12, 34)]  # fmt: skip
    own = Shape(true, tuple(rows)).best(np.arange(len(rows)))
    assert [r.up_to_bytes for r in own.base.regimes] == [r.up_to_bytes for r in regimes]


def test_what_is_written_of_collectives_is_what_was_fitted() -> None:
    """The table, read as a config has it, takes as long as the constants that it was written from."""
    true = replace(calibration_of("h100"), launch_ps=5_000_000, pair_bytes_per_us=250_000)
    head, regimes = table_of(true)
    data = {"like": "h100", "nccl": head | {"regimes": regimes}}
    config = config_of({"mine": data})
    own = in_server_type(own_devices(config.workload.devices)["mine"])  # pyright: ignore[reportAttributeAccessIssue]
    for op in ("all-reduce", "reduce-scatter", "all-to-all"):
        for size in (100, 2**16, 2**22, 2**30):
            assert in_server_ps(own, op, size, 8) == in_server_ps(true, op, size, 8)


def config_of(devices: dict[str, Any], folder: Path = Path()) -> Any:
    data = tomllib.loads(CONFIG)
    data["workload"]["devices"] = devices
    return config_from_dict(data, folder / "config.toml")


PRINTED = """\
# nThread 1 nGpus 1 minBytes 8
#  Rank  0 Group  0 Pid 1 on one device  0 [0000:19:00] NVIDIA H100
#  Rank  1 Group  0 Pid 2 on one device  1 [0000:2d:00] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
""" + "".join(f"  {2**i} {2**i // 4} float sum -1 {10 + i}.5 0 0 0 9 0 0 0\n" for i in range(10, 20))  # fmt: skip


def test_nccl_tests_and_csv_are_read_alike(tmp_path: Path) -> None:
    printed = write(tmp_path, "all_reduce_perf.txt", PRINTED)
    lines = [f"{2**i},all_reduce,2,1,{10 + i}.5,Ring (NVLS off)" for i in range(10, 20)]
    table = write(
        tmp_path, "b.csv", "\n".join(["size_bytes,collective,ranks,nodes,time_us,algo", *lines, "1,alltoall,8,2,1,"])
    )
    one, other = read_collectives([printed]), read_collectives([table])
    assert [row._replace(algorithm="ring") for row in one.rows] == other.rows and other.n_between == 1
    assert one.rows[0] == Measured("all-reduce", 1024, 2, "auto", 20.5e6)
    by_bus = [f"{2**i},sendrecv,2,{2**i / (10 + i) / 1e3}" for i in range(10, 20)]
    found = read_collectives([write(tmp_path, "c.csv", "\n".join(["size_bytes,operation,gpus,busbw_GBps", *by_bus]))])
    assert [row.time_ps for row in found.rows] == pytest.approx([(10 + i) * 1e6 for i in range(10, 20)])
    assert bus_share("all-reduce", 8) == 1.75 and bus_share("all-gather", 8) == 0.875


# Iterations


def runs(folder: Path, gpus: tuple[int, ...] = (16, 32)) -> tuple[IterationModel, list[MeasuredRun]]:
    """Layouts, with times by TRUE and what an alignment adds."""
    path = write(folder, "c.toml", CONFIG)
    base, _ = read_toml(path)
    found = [
        MeasuredRun("f", f"s{tp}", {"topology.gpus": n, "workload.parallel.tp": tp, "workload.parallel.dp": n // tp,
                                    "workload.model.hidden": h, "workload.microbatch": m}, 1.0)
        for n in gpus for tp in (1, 2, 8) for h in (512, 4096) for m in (1, 4)
    ]  # fmt: skip
    model = IterationModel([config_with(base, path, run, {}) for run in found], found, lambda _: None)
    times_ps = model.times_ps(TRUE, np.arange(len(found)))
    return model, [run._replace(time_ps=float(time)) for run, time in zip(found, times_ps, strict=True)]


def test_iterations_give_constants_that_predict_sources_that_were_held_out(tmp_path: Path) -> None:
    model, measured = runs(tmp_path)
    model.runs = measured
    found = calibrate(model.problem({}), (0.0,))
    assert np.abs(found.before).mean() > 0.15 and np.abs(found.after).mean() < 0.01
    assert found.chosen.error < 0.03 and found.chosen.order > 0.98


def test_what_kernels_said_stands_when_iterations_are_fitted(tmp_path: Path) -> None:
    model, measured = runs(tmp_path, (16,))
    model.runs = measured
    known = {name: TRUE[name] * 1.01 for name in ("gemm_gamma", "memory_gamma", "launch_ps")}
    found = calibrate(model.problem(known), (0.0,))
    by_name = dict(zip(found.problem.names, found.constants, strict=True))
    assert {name: by_name[name] for name in known} == pytest.approx(known, rel=0.05)


def test_columns_are_keys_by_their_whole_or_their_last_name(tmp_path: Path) -> None:
    text = "source,iteration_ms,tp,topology.gpus,workload.compute.gpu\nx,12.5,2,16,h100\ny,13,,32,\n"
    one, other = read_iterations(write(tmp_path, "i.csv", text))
    values = {"workload.parallel.tp": 2, "topology.gpus": 16, "workload.compute.gpu": "h100"}
    assert (one.group, one.time_ps, one.values) == ("x", 12.5e9, values)
    assert (other.group, other.values) == ("y", {"topology.gpus": 32})


def test_a_regression_finds_what_the_number_of_gpus_adds_and_is_no_worse_held_out() -> None:
    """T = 1.1 t + 0.02 ln N + 0.0001 N t, of Arcadia's section 7.1."""
    draw, gpus = np.random.default_rng(2), [64, 128, 256, 512] * 6
    simulated = draw.uniform(1, 4, len(gpus))
    n = np.array(gpus)
    measured = 1.1 * simulated + 0.02 * np.log(n) + 1e-4 * n * simulated
    own = align(problem(measured * 1e12, np.ones((len(gpus), 1))), simulated * 1e12, simulated * 1e12, gpus)
    assert own.after < 0.01 < 0.08 < own.before
    assert own.alignment.aligned_s(256, 2.0) == pytest.approx(2.2 + 0.02 * np.log(256) + 0.0512, rel=0.01)
    assert own.alignment.aligned_s(1024, 2.0) is None and own.alignment.aligned_s(32, 2.0) is None


# Flows, and files in configs

FLOWS = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
host_rate = "100Gbps"
spine_rate = "100Gbps"
[workload]
kind = "flows"
file = "flows.csv"
[wormhole]
mode = "flow"
"""


def test_a_delay_is_found_from_completion_times(tmp_path: Path) -> None:
    """And a config that names the file has it; of its own value a warning says so."""
    lines = [f"{i % 2},{2 + i % 2},{1000 * 3**i},{i}000000000" for i in range(8)]
    write(tmp_path, "flows.csv", "\n".join(["src,dst,size_bytes,start_ps", *lines]))
    config, target = write(tmp_path, "c.toml", FLOWS), tmp_path / "out.toml"
    true = ["--set", "topology.spine_delay=4us", "--set", f"output.dir={tmp_path / 'r'}"]
    assert main([str(config), *true, "--quiet"]) == 0
    table = Result(tmp_path / "r").flows.to_pydict()
    times = [f"{i},{ps / 1e6}" for i, ps in zip(table["flow_id"], table["fct_ps"], strict=True)]
    measured = write(tmp_path, "m.csv", "\n".join(["flow,fct_us", *times]))
    command = ["calibrate", str(config), "--flows", str(measured), "--key", "topology.spine_delay=500ns..20us"]
    assert main([*command, "--lambda", "0", "-o", str(target)]) == 0
    config.write_text(f'[simulation]\ncalibration = "out.toml"\n{FLOWS}')
    found = load_config(config)
    assert found.topology.spine_delay_ps == pytest.approx(4e6, rel=0.02)  # pyright: ignore[reportAttributeAccessIssue]
    own = load_config(config, ["topology.spine_delay=1us"])
    assert own.topology.spine_delay_ps == 10**6  # pyright: ignore[reportAttributeAccessIssue]
    assert any("stands, though" in text and "spine_delay" in text for text in own.warnings)


def test_an_aligned_run_says_both_times(tmp_path: Path) -> None:
    alignment = "gpus = 0\ngpus_time = 0\nlog_gpus = 0\ninverse_gpus = 0\ntime = 2.0\nconstant = 1.0\n"
    write(tmp_path, "out.toml", f"[alignment]\n{alignment}least_gpus = 16\nmost_gpus = 16\n")
    config = write(tmp_path, "c.toml", f'[simulation]\ncalibration = "out.toml"\n{CONFIG}')
    assert load_config(config).alignment == Alignment((0, 0, 0, 0, 2, 1), 16, 16)
    assert main([str(config), "--set", f"output.dir={tmp_path / 'r'}", "--quiet"]) == 0
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    (time_ps,), (aligned_ps,) = result["iteration_time_ps"], result["aligned_iteration_time_ps"]
    assert aligned_ps == pytest.approx(2 * time_ps + 10**12, abs=2)


def test_a_known_type_that_is_changed_has_what_is_given_and_no_bound() -> None:
    """An H200's times are bound by the H100's; measured ones are not."""
    changed = own_devices(config_of({"h200": {"constants": {"gemm_gamma": 1.05}}}).workload.devices)["h200"]
    same = own_devices(config_of({"h200": {"memory": "150GB"}}).workload.devices)["h200"]
    assert changed.reference is None and changed.fit.gemm_gamma == 1.05 and changed.links is None
    assert same.reference is not None and same.hbm_bytes == 150 * 10**9
    assert with_fit(same, {"launch_ps": 1.0}).fit.launch_ps == 1


# What is wrong


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "is given no measurements"),
        (["--iterations", "t.csv"], r"t\.csv: line 2.*no iteration_s"),
        (["--flow", "--iterations", "m.csv"], "--iterations: is there, and so is --flow"),
        (["--kernels", "m.csv", "--align"], "--align: is there, and --iterations is not"),
        (["--kernels", "m.csv", "--key", "a.b=1..2"], "--key: is there, and --iterations or --flows is not"),
        (["--flows", "m.csv"], "--flows: without --key"),
        (["--flows", "m.csv", "--key", "a=1..2"], "names no table"),
        (["--flows", "m.csv", "--key", "a.b=2us..1us"], r"from 2us to 1us\. Accepted"),
        (["--iterations", "i.csv", "--lambda", "x"], "--lambda x: is no list of numbers"),
        (["--iterations", "i.csv"], r"i\.csv: line 1: speed: is no key of a config"),
        (["--iterations", "none.csv"], "cannot be read: No such file"),
        (["--collectives", "m.csv"], r"m\.csv: line 2.*no operation"),
        (["--kernels", "few.csv"], "1 kernels, for 3 constants"),
        (["--iterations", "j.csv", "--align"], "--align: 1 runs on 1 numbers of GPUs"),
    ],
)
def test_a_fault_has_its_place_and_status_2(
    tmp_path: Path, words: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "c.toml", CONFIG)
    write(tmp_path, "t.csv", "tp\n2\n")
    write(tmp_path, "m.csv", "flow,bytes\n1,2\n")
    write(tmp_path, "i.csv", "iteration_s,speed\n1,2\n")
    write(tmp_path, "j.csv", "iteration_s,tp\n1,2\n")
    write(tmp_path, "few.csv", "kind,dtype,count,m,n,k,bytes,time_us\ngemm,bf16,1,8,8,8,0,5\n")
    assert main(["calibrate", "c.toml", *words]) == 2
    error = capsys.readouterr().err
    assert re.search(text, error), error
    assert not (tmp_path / "calibrated.toml").exists()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("[nonsense]\n", r"out\.toml: \[nonsense\]: unknown table"),
        ("[network]\npayload = 3\n", r"out\.toml:2: \[network\] payload"),
        ("[workload.devices.h100]\nlike = \"a100\"\n", r"out\.toml:2: \[workload\.devices\.h100\] like"),
        ("[alignment]\ngpus = 1\n", r"\[alignment\] gpus_time: is missing"),
        ("[dctcp]\nalone = 1\nshared = 1\nqueue = \"1us\"\n", r"is for \[wormhole\.flow\] calibration"),
        ("[workload.devices.h100.nccl]\nregimes = [{algorithm = \"nvls\", protocol = \"Simple\", latency = \"9us\", "
         "bandwidth = \"3GBps\"}]\n", "has no ring"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_refused_with_its_own_name(tmp_path: Path, content: str, text: str) -> None:
    write(tmp_path, "out.toml", content)
    config = write(tmp_path, "c.toml", f'[simulation]\ncalibration = "out.toml"\n{CONFIG}')
    with pytest.raises(ConfigError, match=text):
        build_scenario(load_config(config))
