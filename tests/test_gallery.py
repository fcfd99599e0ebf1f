"""Studies of the gallery: their quick forms run and keep what theory says; their pages show what they printed."""

import csv
import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pdes
from pdes.config import load_config
from pdes.config.cluster.load import is_cluster_config, load_cluster

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "examples" / "studies"
NAMES = sorted(path.parent.name for path in STUDIES.glob("*/study.py"))
PAGES = ROOT / "docs" / "gallery"


def load(path: Path) -> ModuleType:
    """A program as a module."""
    spec = importlib.util.spec_from_file_location(f"gallery_{path.parent.name.replace('-', '_')}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


@pytest.fixture(scope="module")
def run(folder: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Runs a study's quick form, once for all tests; its table."""
    known: dict[str, list[dict[str, Any]]] = {}

    def rows_of(name: str) -> list[dict[str, Any]]:
        if name not in known:
            rows = known[name] = load(STUDIES / name / "study.py").main(["--quick", "--out", str(folder)])
            with (folder / f"{name}.csv").open() as file:
                assert list(csv.DictReader(file)) == [{key: str(value) for key, value in row.items()} for row in rows]
        return known[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(STUDIES))  # as study.py does, but undone
        yield rows_of


def by(rows: list[dict[str, Any]], *keys: str) -> dict[Any, dict[str, Any]]:
    """Rows by the figures of some columns."""
    return {tuple(row[key] for key in keys) if len(keys) > 1 else row[keys[0]]: row for row in rows}


def test_an_incast_takes_as_long_as_its_bytes_and_its_queue_is_bounded_by_the_buffer(run: Any) -> None:
    rows = by(run("incast"), "control")
    line_ms = {name: 21 * 4000 * (1048 + 42 * (name == "hpcc")) * 8 / 100e9 * 1e3 for name in ("hpcc", "none")}
    for name, row in rows.items():
        assert line_ms[name] < float(row["last flow, ms"]) < 1.1 * line_ms[name]
        assert float(row["queue, most kB"]) < 4000
    assert float(rows["hpcc"]["queue, median kB"]) < float(rows["none"]["queue, median kB"]) / 100
    assert float(rows["hpcc"]["NICs paused per run, ms"]) == 0 < float(rows["none"]["NICs paused per run, ms"])
    assert float(rows["hpcc"]["worst"]) < float(rows["none"]["worst"]) / 3


@pytest.mark.slow
def test_more_buffer_pauses_later_and_ends_no_later(run: Any) -> None:
    rows = by(run("buffers"), "collective", "buffer, MB")
    nic_ms = 31 / 32 * 32e6 * 4144 / 4096 * 8 / 400e9 * 1e3
    for collective in ("all-to-all", "all-reduce"):
        small, large = rows[collective, 2], rows[collective, 32]
        assert int(small["pauses"]) > 10 * int(large["pauses"])
        assert float(small["none, ms"]) > float(large["none, ms"])
        assert small["none, ms"] == small["dcqcn, ms"], "nothing is marked below PFC's threshold"
    assert float(rows["all-to-all", 32]["none, ms"]) > nic_ms
    assert rows["all-to-all", 32]["first pause, us"] == "none"


def test_an_all_reduce_takes_as_long_as_its_busiest_link(run: Any) -> None:
    rows = by(run("queue-pairs"), "queue pairs")
    for row in rows.values():
        assert float(row["one job, dctcp"]) > 0.99 * float(row["busiest link"])
        assert float(row["one job, dctcp"]) < 1.15 * float(row["busiest link"])
    assert float(rows[16]["busiest link"]) < float(rows[1]["busiest link"]) / 1.5


def test_what_crosses_fewer_spines_takes_longer_and_what_crosses_none_does_not(run: Any) -> None:
    rows = by(run("oversubscription"), "oversubscription")
    assert int(rows[1]["spines"]) == 4 * int(rows[4]["spines"])
    assert rows[1]["dense, ms"] == rows[4]["dense, ms"]
    assert rows[1]["MoE below one rail switch, ms"] == rows[4]["MoE below one rail switch, ms"]
    assert float(rows[4]["MoE, ms"]) > float(rows[1]["MoE, ms"])
    assert float(rows[1]["MoE, ms"]) >= float(rows[1]["MoE below one rail switch, ms"])


def test_layouts_that_do_not_fit_are_refused_with_their_need(run: Any) -> None:
    rows = by(run("layouts"), "layout")
    never = rows["TP1-PP1-DP64"]
    assert never["s"] == "-" and re.fullmatch(r"[\d.]+ GiB, \w+ \d+", never["recomputed"])
    assert all(float(never[kind].split()[0]) > 80 for kind in ("kept", "recomputed"))
    kept, recomputed = rows["TP4-PP8-DP2"], rows["TP8-PP1-DP8"]
    assert kept["kept"] == recomputed["recomputed"] == "fits" and float(recomputed["kept"].split()[0]) > 80
    assert recomputed["PP and bubble"] == "0.0%"


def test_a_pipeline_takes_all_microbatches_on_its_slowest_stage_and_one_on_the_others(run: Any, folder: Path) -> None:
    run("layouts")
    result = pdes.Result(folder / "TP4-PP8-DP2-none")
    spent = result.table("breakdown").to_pylist()
    busy = [[row["compute_ps"] + row["tp_ps"] for row in spent if row["gpu"] // 8 == stage] for stage in range(8)]
    of_stage = [sum(times) / len(times) for times in busy]
    microbatches = 64 // 2
    expected_ps = max(of_stage) + (sum(of_stage) - max(of_stage)) / microbatches
    assert result.summary["iteration_time_ps"][0] == pytest.approx(expected_ps, rel=0.01)


def test_pxn_keeps_off_the_spines_on_rails_alone(run: Any) -> None:
    rows = by(run("rails"), "fabric", "all-to-all")
    shares = {case: row["through spines"] for case, row in rows.items()}
    assert shares["rails", "pxn"] == "0%" and shares["rails", "direct"] == "88%"  # 7 of 8 rails are others
    assert shares["fat-tree", "pxn"] == shares["fat-tree", "direct"] == "100%"
    assert all(float(row["over line rate"]) > 1 for row in rows.values())
    assert float(rows["rails", "pxn"]["ms"]) == min(float(row["ms"]) for row in rows.values())


@pytest.mark.slow  # in small: tests/pdes/test_jobs.py
def test_jobs_that_share_no_port_take_what_they_take_alone_and_flow_mode_agrees(run: Any) -> None:
    rows = by(run("neighbours"), "placement", "job")
    for job in ("dense", "experts"):
        assert rows["packed", job]["ports shared"].startswith("0 of") and rows["packed", job]["slowdown"] == "1.000"
        slowdown, in_flow = (float(rows["spread", job][name]) for name in ("slowdown", "slowdown, flow mode"))
        assert 1.05 < slowdown < 2 and in_flow == pytest.approx(slowdown, rel=0.05)


@pytest.mark.slow
def test_a_faster_network_shortens_iterations_by_no_more_than_its_rate_and_by_what_was_exposed(run: Any) -> None:
    rows = by(run("bandwidth"), "Gbps")
    for job in ("DLRM", "DLRM, 4 x batch", "LLaMA 7B", "LLaMA 70B"):
        slow, fast, fastest = (float(rows[rate][f"{job}, ms"]) for rate in (100, 1000, 4000))
        assert fastest < fast < slow < 10 * fast
        assert rows[100][f"{job}, exposed"] == f"{1 - fastest / slow:.0%}"
    assert rows[100]["a job 56 % faster, exposed"] == "40%"  # c + n is 1.56 (c + n / 10)


@pytest.mark.slow
def test_an_all_to_all_and_what_is_not_hidden_of_sums_bound_a_recommendation_model(run: Any) -> None:
    """From below: computing, and twice 15/16 of 128 MiB through a NIC."""
    rows = by(run("bandwidth"), "Gbps")
    computing_ms = 2.29 + 4.58 + 3 * (3 * 0.011 + 8 * 0.172) - 0.011  # the first dense layer needs no input gradient
    for rate in (100, 1000, 4000):
        exchanges_ms = 2 * 15 / 16 * 134217728 * 4144 / 4096 * 8 / (rate * 1e9) * 1e3
        nvlink_ms = 2 * 7 / 8 * 134217728 * 4144 / 4096 * 8 / 3.6e12 * 1e3
        assert float(rows[rate]["DLRM, ms"]) > 0.99 * (computing_ms + exchanges_ms + nvlink_ms)


@pytest.mark.slow
def test_a_ring_from_pod_to_pod_is_slowed_by_the_streams_that_share_its_busiest_link(run: Any) -> None:
    rows = by(run("congestion"), "remedy")
    shares = {remedy: float(row["dense, alone"].rstrip("%")) / 100 for remedy, row in rows.items()}
    assert shares["as found"] < 1 / 2 < shares["sprayed"] < shares["ranks by pod"] < 1
    assert len({row["pod"] for row in rows.values()}) == 1, "nothing crosses the pod that is one job's"
    assert float(rows["as found"]["dense done, ms"]) > 2 * float(rows["ranks by pod"]["dense done, ms"])
    assert float(rows["sprayed"]["busiest / mean link"]) < 1.02


@pytest.mark.slow
def test_packets_wait_before_the_links_on_which_ways_meet_in_flow_mode(run: Any, folder: Path) -> None:
    run("congestion")
    head, _, figures = (folder / "congestion-packets.md").read_text().splitlines()
    row = dict(zip(*([cell.strip() for cell in line.strip("|").split("|")] for line in (head, figures)), strict=True))
    assert int(row["links where ways meet"]) == int(row["with packets waiting"]) == int(row["both"]) > 0
    assert float(row["off, ms"]) == pytest.approx(float(row["flow, ms"]), rel=0.02)


def test_twice_the_servers_halve_waits_and_not_the_gpus_that_are_idle(run: Any) -> None:
    """A queue of constant length: Little's law says that the wait is its length over the starts per time."""
    rows = by(run("sizing"), "sigma of durations", "servers")
    for row in rows.values():
        assert float(row["mean wait, h"]) == pytest.approx(float(row["500 / starts per h"]), rel=0.1)
    for sigma in (0.3, 0.8, 1.3):
        assert float(rows[sigma, 512]["wait / half the servers' wait"]) == pytest.approx(0.5, abs=0.05)
        assert float(rows[sigma, 512]["idle GPUs / half the servers'"]) > 0.7


@pytest.mark.slow
def test_a_job_stands_still_as_long_as_more_servers_are_in_repair_than_there_are_spares(run: Any) -> None:
    """20 days have some 36 times two repairs' lengths: a standard error of 8 %. 13 times a day 15 min: a cold spare."""
    rows = by(run("spares"), "spares", "how many")
    still = {key: float(row["job stands still"].rstrip("%")) for key, row in rows.items()}
    poisson = {key: float(row["more in repair than spares"].rstrip("%")) for key, row in rows.items()}
    assert still["hot", 4] == pytest.approx(poisson["hot", 4], abs=24) and poisson["hot", 4] > 25
    assert still["hot", 16] <= 1 and still["cold", 16] == pytest.approx(13.3 * 15 / 1440 * 100, abs=3)


def test_every_study_is_tested_and_has_a_page() -> None:
    tested = re.findall(r'run\("([\w-]+)"\)', Path(__file__).read_text())
    assert sorted(set(tested)) == NAMES == sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "index")
    index = (PAGES / "index.md").read_text()
    assert re.findall(r"\(([\w-]+)\.md\)", index.partition("`--quick`")[0]) and all(f"({n}.md)" in index for n in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_the_table_and_the_figures_that_were_published(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text()
    with (PAGES / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    shown = page.partition("<!-- table -->\n")[2].partition("\n<!-- /table -->")[0]
    assert shown == load(STUDIES / "gallery.py").markdown(rows)
    assert {f"{stem}.svg" for stem in re.findall(r"\(([\w-]+)\.svg\)", page)} == {
        path.name for path in PAGES.glob(f"{name}-*.svg")
    }
    assert f"python examples/studies/{name}/study.py\n" in page


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*/*.toml")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_config_of_a_study_says_how_to_run_it_and_where_it_writes(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    suffix = "" if path.stem == "config" else f"-{path.stem}"
    assert f"# Run it with: pdes-sim {name}\n" in path.read_text()
    config = load_cluster(path, []).run if is_cluster_config(path) else load_config(path)
    assert config.output.dir == f"results/studies/{path.parent.name}{suffix}"


def test_quick_figures_are_not_published(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        load(STUDIES / "gallery.py").study("incast", None, ["--quick", "--publish"])
    assert stopped.value.code == 2 and "--publish is for the whole study" in capsys.readouterr().err
