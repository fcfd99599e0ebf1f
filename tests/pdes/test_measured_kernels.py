"""Measured kernel times in a config: what the file says is what a job takes, and all else is as without it."""

import csv
from pathlib import Path
from typing import Any

import pytest

from models.workload.compiler.kernels import job_kernels
from models.workload.plan import WorkloadPlan
from models.workload.program import OP_COMPUTE, OP_REPEAT
from pdes.cli import main
from pdes.config import Config, load_config
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

JOB = """
[topology]
kind = "roft"
gpus = 16
nic_rate = "400Gbps"
spine_rate = "400Gbps"
[workload]
kind = "training"
model = { layers = 4, hidden = 1024, heads = 8, vocabulary = 1024, sequence = 512, ffn = 3000 }
microbatches = 3
[workload.parallel]
tp = 4
dp = 2
pp = 2
[workload.compute]
gpu = "h100"
"""


def load(folder: Path, *overrides: str) -> Config:
    path = folder / "job.toml"
    path.write_text(JOB)
    return load_config(path, list(overrides))


def plan_of(folder: Path, *overrides: str) -> WorkloadPlan:
    return build_scenario(load(folder, *overrides)).plan


def export(folder: Path) -> list[dict[str, str]]:
    """The rows of the exported table, kernels.csv."""
    load(folder)
    assert main(["export", "kernels", str(folder / "job.toml"), "-o", str(folder / "kernels.csv")]) == 0
    with (folder / "kernels.csv").open() as file:
        return list(csv.DictReader(file))


def write(folder: Path, rows: list[dict[str, str]]) -> None:
    with (folder / "kernels.csv").open("w") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def computing_ps(plan: WorkloadPlan) -> list[int]:
    """Times of the computations of all programs, in order."""
    rows = plan.operations
    assert (rows["kind"] == OP_REPEAT).any()
    return rows["time_ps"][rows["kind"] == OP_COMPUTE].tolist()


def test_what_is_exported_changes_nothing(tmp_path: Path) -> None:
    """Every kernel has its own key here, so the table has the model's times to the ps."""
    config = load(tmp_path)
    kernels = job_kernels(checked_job(config, build_topology(config)))
    rows = export(tmp_path)
    assert len(rows) == len(kernels)
    measured, modelled = plan_of(tmp_path, "workload.compute.kernels=kernels.csv"), plan_of(tmp_path)
    assert measured.operations.tobytes() == modelled.operations.tobytes()
    assert measured.facts["measured_kernels"] == f"h100 {len(rows)} of {len(rows)}, 100 % of the time"
    assert "measured_kernels" not in modelled.facts


def test_all_kernels_twice_as_long_are_all_computing_twice_as_long(tmp_path: Path) -> None:
    """With a host that launches at once, as nothing else is in the time of a segment."""
    own = ('workload.devices.mine={like="h100",constants={dispatch="0s"}}', "workload.compute.gpu=mine")
    rows = export(tmp_path)
    write(tmp_path, [row | {"time_us": f"{2 * float(row['time_us']):.6f}"} for row in rows])
    once, twice = plan_of(tmp_path, *own), plan_of(tmp_path, *own, "workload.compute.kernels=kernels.csv")
    assert computing_ps(twice) == [2 * time_ps for time_ps in computing_ps(once)]


def test_one_kernel_is_measured_and_the_others_are_not(tmp_path: Path) -> None:
    """The longest product runs once in a pass over a layer, or over the head, and takes 100 us longer."""
    mine = 'workload.devices.mine={like="h100",constants={dispatch="0s"}'
    rows = export(tmp_path)
    product = next(row for row in rows if row["kind"] == "gemm")
    write(tmp_path, [product | {"time_us": str(float(product["time_us"]) + 100)}])
    measured, modelled = (
        plan_of(tmp_path, f"{mine}{file}}}", "workload.compute.gpu=mine") for file in (',kernels="kernels.csv"', "")
    )
    added = {a - b for a, b in zip(computing_ps(measured), computing_ps(modelled), strict=True)}
    assert added == {0, 100_000_000}
    text = measured.facts["measured_kernels"]
    assert isinstance(text, str) and text.startswith(f"mine 1 of {len(rows)}, ")


def test_a_server_of_the_same_type_has_the_same_times(tmp_path: Path) -> None:
    """A file belongs to the type of [workload.compute] gpu, wherever it is named."""
    rows = export(tmp_path)
    write(tmp_path, [row | {"time_us": "77"} for row in rows])
    group = 'workload.gpus=[{servers=[1],gpu="h100"}]'
    plain, named = (
        plan_of(tmp_path, "workload.compute.kernels=kernels.csv", *more) for more in ((), (group,))
    )  # fmt: skip
    assert plain.operations.tobytes() == named.operations.tobytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind,dtype,m,n,k,time_us\ngemm,bf16,1,1,1,5\n", r"kernels.csv: none of the \d+ kernels .*export kernels"),
        ("kind,dtype,m,n,k,time_us\ngemm,bf16,1,1,1,x\n", r"kernels.csv: line 2: could not convert"),
        ("kind,dtype\n", r"kernels.csv: line 1: no column time_us"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "kernels.csv").write_text(text)
    with pytest.raises(ConfigError, match=message):
        plan_of(tmp_path, "workload.compute.kernels=kernels.csv")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["workload.compute.kernels=none.csv"], r"compute.kernels: there is no file .*none.csv"),
        (['workload.devices.a={like="h100",kernels="none.csv"}'], r"devices.a.kernels: there is no file .*none.csv"),
        (
            ["workload.compute.kernels=job.toml", 'workload.compute.pass_times=["1ms","1ms","1ms"]'],
            "kernels: is there, and so is pass_times",
        ),
        (
            ["workload.compute.kernels=job.toml", 'workload.devices.a={like="h100",kernels="job.toml"}',
             "workload.compute.gpu=a"],
            r"kernels: is there, and so is \[workload.devices.a\] kernels",
        ),
    ],
)  # fmt: skip
def test_a_wrong_key_is_refused(tmp_path: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, *overrides)


def test_only_compiled_jobs_have_kernels(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "ring.toml"
    path.write_text(JOB.split("[workload]")[0] + '[workload]\nkind = "training"\npreset = "gpt-7b"\n'
                    "parallel = { tp = 8, dp = 2, pp = 1 }\n")  # fmt: skip
    assert main(["export", "kernels", str(path), "-o", str(tmp_path / "k.csv")]) == 2
    assert "has no kernels" in capsys.readouterr().err
