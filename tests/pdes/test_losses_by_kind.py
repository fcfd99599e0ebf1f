"""What kernels lose beside exchanges, by their kind: in segments, in runs, and measured."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pdes
from models.compute.devices import DEVICES, Fit
from models.compute.kernel_time import kernel_ps
from models.compute.lower import SLOWED_1024, segments, steps_of
from models.compute.operators import Kernel
from pdes.cli import main
from pdes.config import load_config
from pdes.convert.toml_text import toml_text
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

LOSSES = {"gemm_loss": 0.1, "attention_loss": 0.3, "memory_loss": 0.6}


def config(losses: dict[str, float], **workload: Any) -> dict[str, Any]:
    """Two servers of two GPUs: gradients are reduced beside the backward pass."""
    return {
        "simulation": {"iterations": 1},
        "topology": {"kind": "roft", "gpus": 4, "gpus_per_server": 2, "nic_rate": "100Gbps", "spine_rate": "100Gbps"},
        "network": {"congestion_control": "dctcp", "payload": "4096B"},
        "workload": {
            "kind": "training", "microbatches": 1, "compute": {"gpu": "h100"},
            "model": {"layers": 8, "hidden": 1024, "heads": 8, "sequence": 2048, "vocabulary": 1024},
            "parallel": {"tp": 2, "dp": 2, "pp": 1}, "devices": {"h100": {"constants": losses}},
        } | workload,
    }  # fmt: skip


def flat(tables: dict[str, Any], name: str = "") -> dict[str, dict[str, Any]]:
    """Tables in tables by their dotted names."""
    found = {name: {key: value for key, value in tables.items() if not isinstance(value, dict)}} if name else {}
    for key, value in tables.items():
        if isinstance(value, dict):
            found |= flat(value, f"{name}.{key}" if name else key)
    return found


def job_of(tables: dict[str, Any], folder: Path) -> Any:
    path = folder / "c.toml"
    path.write_text(toml_text("c", flat(tables)))
    found = load_config(path)
    return checked_job(found, build_topology(found))


def test_a_segment_is_slowed_by_the_mean_over_its_kernels(tmp_path: Path) -> None:
    """Each kernel takes its time over what is left; the segment takes their sum."""
    job = job_of(config(LOSSES), tmp_path)
    device = job.devices[0]
    left = {"gemm": 0.9, "attention": 0.7}
    kernels = [one for _, one in steps_of(job.shape, job.layout, "dense", "backward") if isinstance(one, Kernel)]
    expected_ps = sum(kernel_ps(one, device) / left.get(one.kind, 0.4) for one in kernels)
    found = segments(job.shape, job.layout, device, "dense", "backward")
    stretch = sum(one.time_ps for one in found) / sum(kernel_ps(one, device) for one in kernels)
    slowed_ps = sum(one.time_ps * one.slowed_1024 / SLOWED_1024 for one in found)
    assert slowed_ps / stretch == pytest.approx(expected_ps, rel=2e-3)
    assert len({one.slowed_1024 for one in found if one.kind == "compute"}) > 1


def test_equal_losses_by_kind_are_the_loss_of_all(tmp_path: Path) -> None:
    """To the picosecond, in a run, and different from other losses."""

    def rows(losses: dict[str, float]) -> dict[str, Any]:
        return pdes.simulate(config(losses), tmp_path / "out").tasks.to_pydict()

    alike = rows({"overlap_loss": 0.5})
    assert rows({"gemm_loss": 0.5, "attention_loss": 0.5, "memory_loss": 0.5, "overlap_loss": 0.5}) == alike
    by_kind = rows(LOSSES | {"overlap_loss": 0.5})
    assert max(by_kind["end_ps"]) < max(alike["end_ps"])


def test_a_type_without_them_has_one_loss() -> None:
    assert not DEVICES["h100"].fit.tells_losses_apart
    fit = replace(Fit(), gemm_loss_frac=0.4)
    assert (fit.tells_losses_apart, fit.loss_frac("gemm"), fit.loss_frac("norm")) == (True, 0.4, 0.2)


def test_an_exported_job_keeps_them(tmp_path: Path) -> None:
    """The trace of a job runs as the job does."""
    given = config(LOSSES)
    (tmp_path / "c.toml").write_text(toml_text("c", flat(given)))
    assert main(["export", "chakra", str(tmp_path / "c.toml"), "-o", str(tmp_path / "t")]) == 0
    traced = given | {"workload": {"kind": "trace", "format": "chakra", "file": str(tmp_path / "t")}}
    own, again = (pdes.simulate(one, tmp_path / "out").tasks.to_pydict() for one in (given, traced))
    assert own["end_ps"] == again["end_ps"]


def test_losses_that_made_times_beside_exchanges_are_found_again(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(toml_text("c", flat(config({}))))
    assert main(["export", "kernels", str(tmp_path / "c.toml"), "-o", str(tmp_path / "k.csv")]) == 0
    with (tmp_path / "k.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        kind = row["kind"].removesuffix("-backward")
        row["beside_us"] = f"{float(row['time_us']) / (1 - LOSSES.get(f'{kind}_loss', 0.6)):.6f}"
    with (tmp_path / "k.csv").open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    target = tmp_path / "calibrated.toml"
    assert main(["calibrate", str(tmp_path / "c.toml"), "--kernels", str(tmp_path / "k.csv"), "-o", str(target)]) == 0
    named = config({}) | {"simulation": {"iterations": 1, "calibration": str(target)}}
    named["workload"].pop("devices")
    fit = job_of(named, tmp_path).devices[0].fit
    found = {f"{kind}_loss": fit.loss_frac(kind) for kind in ("gemm", "attention", "memory")}
    assert found == pytest.approx(LOSSES, abs=3e-3)  # of a kernel's time; the order of times counts, too


@pytest.mark.parametrize(
    ("text", "said"),
    [("3.9", "beside_us 3.9"), ("x", "number of microseconds for beside_us"), ("nan", "beside_us nan")],
)
def test_times_that_cannot_be_are_refused(text: str, said: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "k.csv").write_text(f"kind,dtype,count,m,n,k,bytes,time_us,beside_us\nnorm,,,,,,1000,4.0,{text}\n")
    (tmp_path / "c.toml").write_text(toml_text("c", flat(config({}))))
    arguments = ["calibrate", str(tmp_path / "c.toml"), "--kernels", str(tmp_path / "k.csv")]
    assert main([*arguments, "-o", str(tmp_path / "out.toml")]) == 2
    assert f"{tmp_path / 'k.csv'}: line 2" in (err := capsys.readouterr().err) and said in err
