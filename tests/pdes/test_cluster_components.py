"""Components by name, maintenance and storage at the cluster level, as people write them in a config."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pdes.cli import main
from reference.cluster_config import CONFIG, run

PARTS = """
[[cluster.failure]]
component = "nic"
leaves = 0.5
gap = { distribution = "exponential", mean = "10d" }
detection = "1h"
repair = "6h"
drains = true

[[cluster.maintenance]]
name = "firmware"
from = "2h"
every = "3h"
duration = "1h"
servers = "1, 3-4"
"""


RAIL = """
[[cluster.failure]]
component = "rail"
leaves = 0.875
gap = "5h"
repair = "1h"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def test_a_rail_switch_slows_jobs_on_several_servers_of_its_rack(config: Path, tmp_path: Path) -> None:
    """As a link of each of its servers does, all at the same time; nothing is down."""
    config.write_text(config.read_text() + RAIL)
    result = run(config, tmp_path / "out", "--set", "cluster.network_share=0.5")
    (found,) = (one for one in result["config"]["cluster"]["failure"] if one["component"] == "rail")
    assert (found["per"], found["takes"]) == ("rack", "network")
    hours = result["gpu_hours"]
    assert "rail" not in hours["down_by_component"] and hours["lost_by_component"]["rail"] > 0
    jobs = pq.read_table(tmp_path / "out" / "jobs.parquet").to_pylist()
    slowed = [job for job in jobs if job["lost_gpu_us"] > 0]
    assert slowed and all(job["gpus"] > 1 for job in slowed if not job["failures"])


def test_components_and_windows_are_counted_by_name(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text().replace('component = "GPU"\nper = "gpu"', 'component = "gpu"') + PARTS)
    sets = ["--set", "cluster.network_share=0.5"]
    result = run(config, tmp_path / "out", *sets)
    per_takes = {f["component"]: (f["per"], f["takes"]) for f in result["config"]["cluster"]["failure"]}
    assert per_takes == {"gpu": ("gpu", "server"), "nic": ("gpu", "network")}
    hours, moves = result["gpu_hours"], result["moves"]
    assert hours["down_by_component"].keys() == {"gpu", "nic", "firmware"} and hours["lost_by_component"]["nic"] > 0
    jobs, events = (pq.read_table(tmp_path / "out" / f"{name}.parquet") for name in ("jobs", "events"))
    assert moves == sum(jobs["moves"].to_pylist()) == events["event"].to_pylist().count("move") > 0
    assert hours["up"] + sum(hours["down_by_component"].values()) == pytest.approx(64 * result["end_s"] / 3600)
    windows = [
        t for t, e in zip(events["time_us"].to_pylist(), events["event"].to_pylist(), strict=True) if e == "close"
    ]
    assert windows[:3] == [2 * 3600 * 10**6, 5 * 3600 * 10**6, 8 * 3600 * 10**6]
    assert main(["plan", str(config), *sets]) == 0
    assert "closed     3 servers for 60 min every 3 h, from 2 h on (firmware)" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "by firmware" in said and f"Moved      {moves:,} times" in said
    assert "firmware" in (tmp_path / "out" / "report.html").read_text()


STORAGE = """
[cluster.storage]
rate = "40GBps"
server_rate = "10GBps"
parameters_per_gpu = 5e8
input_per_gpu = "1GBps"
"""


def test_storage_is_in_the_plan_and_in_results(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """24 GPUs x 5e8 parameters x 14 bytes over 30 GB/s of 3 servers: 5.6 s. 64 GPUs need 64 GB/s of 40: 5/8."""
    config.write_text(config.read_text().replace('write = "1min"\n', "") + STORAGE)
    assert main(["plan", str(config)]) == 0
    said = capsys.readouterr().out
    assert "writes a checkpoint of 168 GB every" in said and "which takes 5.6 s" in said
    hours = run(config, tmp_path / "out")["gpu_hours"]
    lost = hours["lost_by_component"]
    assert lost["input"] / (lost["input"] + hours["productive"]) == pytest.approx(3 / 8, abs=0.01)
    config.write_text(config.read_text().replace("parameters_per_gpu = 5e8", ""))
    assert main([str(config), "--out", str(tmp_path / "x")]) == 2  # Daly's rule, and nothing to write
    assert "[cluster.checkpoint] interval" in capsys.readouterr().err


def test_a_named_model_has_the_checkpoint_of_its_parameters(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3 405B: 405.85e9 parameters of 14 bytes are 5.68 TB, 189 s over 30 GB/s of 3 servers."""
    config.write_text(config.read_text().replace('write = "1min"\n', "") + STORAGE)
    named = 'parameters = { "" = "llama3-405b" }'
    config.write_text(config.read_text().replace("parameters_per_gpu = 5e8", named))
    assert main(["plan", str(config)]) == 0
    said = capsys.readouterr().out
    assert "writes a checkpoint of 5.68 TB every" in said and "which takes 3.16 min" in said
    config.write_text(config.read_text().replace("llama3-405b", "llama-3-405b"))
    assert main(["plan", str(config)]) == 2
    assert 'Did you mean "llama3-405b"?' in capsys.readouterr().err


WRONG_PARTS = {
    'failure=[{component="nic",gap="1d",repair="1h"}]': ("cluster.failure", 'takes = "network", without leaves'),
    'failure=[{component="x",gap="1d",leaves=0.5}]': ('takes = "server", and leaves',),
    'failure=[{component="x",gap="1d",drains=true}]': ('takes = "server", and drains',),
    'failure=[{component="x",takes="speed",gap="1d",leaves=0.5}]': ("neither detection nor repair",),
    'failure=[{component="x",takes="speed",gap="1d",leaves=1.5,repair="1h"}]': ("leaves", "1.5"),
    'failure=[{component="nic",gap="1d",leaves=0.5,repair="1h"}]': ("network_share is missing",),
    "storage={}": ("neither rate nor server_rate",),
    'storage={rate="2TBps"}': ("nothing that goes through it",),
    'storage={rate="0TBps",parameters_per_gpu=1e9}': ("rate",),
    'storage={rate="2TBps",parameters={x=-1}}': ("parameters.x", "found -1", "name of a model"),
    'storage={rate="2TBps",parameters={x=true}}': ("parameters.x", "found true"),
    'maintenance=[{duration="1h"}]': ("neither servers nor racks",),
    'maintenance=[{duration="1h",servers="1",racks="0"}]': ("both servers and racks",),
    'maintenance=[{duration="1h",servers="3-1"}]': ("servers", '"3-1"', "0-15, 32"),
    'maintenance=[{duration="1h",servers="8"}]': ("servers", "found 8", "0 to 7"),
    'maintenance=[{duration="1h",racks="0-1"}]': ("racks", "found 1", "as there are 1 racks"),
    'maintenance=[{duration="2h",every="1h",servers="0"}]': ("every is no longer than duration",),
    'maintenance=[{servers="0"}]': ("duration",),
}


@pytest.mark.parametrize("what", WRONG_PARTS)
def test_wrong_components_and_windows_get_one_message(
    what: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text().replace('interval = "daly"', 'interval = "1h"'))
    assert main([str(config), "--out", str(tmp_path / "out"), "--set", f"cluster.{what}"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said and not (tmp_path / "out").exists()
    for part in WRONG_PARTS[what]:
        assert part in said, said
