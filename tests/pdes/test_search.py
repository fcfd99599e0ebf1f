"""Claims about `pdes-sim search`: the winner is that of all runs, refused candidates are rows, nothing is run twice."""

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
import pdes.searching.space as space
from pdes.cli import main
from pdes.config.search import CostTable
from pdes.scenario.topology import build_topology
from pdes.searching.climb import PACKETS
from pdes.searching.fabric import parts_of
from pdes.searching.load import load_search
from pdes.searching.run import Runner, run_search, screened
from pdes.searching.screen import Screen
from pdes.sweeps.store import Store
from pdes.workers import here

BASE = """
[simulation]
iterations = 2
[topology]
kind = "roft"
gpus = 8
gpus_per_server = 4
nvlink = "packets"
[network]
congestion_control = "dctcp"
payload = "4096B"
[workload]
kind = "training"
global_batch = 8
[workload.model]
layers = 4
hidden = 512
heads = 8
vocabulary = 4096
sequence = 512
[workload.parallel]
tp = 1
dp = 8
pp = 1
[workload.compute]
gpu = "h100"
[wormhole]
mode = "off"
"""
SEARCH = """
[search]
config = "base.toml"
{more}
[search.layout]
tp = "auto"
pp = [1, 2]
microbatch = [1]
zero = [0, 1]
{rest}
"""
AXIS = '[[search.axis]]\nkey = "topology.nic_rate"\nvalues = ["50Gbps", "200Gbps"]\n'
PRICE = "[search.price]\ngpu = 1000\nnic_per_gbps = 10\n"


def write(folder: Path, more: str = "", rest: str = "", base: str = BASE, search: str = SEARCH) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "base.toml").write_text(base)
    (folder / "search.toml").write_text(search.format(more=more, rest=rest))
    return folder / "search.toml"


def searched(path: Path) -> Any:
    return run_search(load_search(path, path.parent / "out"), here)


@pytest.mark.parametrize(
    ("more", "rest"),
    [("", ""), ('where = ["workload.parallel.tp <= 2"]\nobjective = "price"', AXIS + PRICE)],
    ids=["layout", "price"],
)  # fmt: skip
def test_the_winner_is_that_of_all_runs(more: str, rest: str, tmp_path: Path) -> None:
    path = write(tmp_path, more, rest)
    found = searched(path)
    rows = screened(found.search)
    there = [i for i, row in enumerate(rows) if not row.kind]
    with Store(tmp_path / "all") as store:
        cost = Runner(found.search, rows, store, here, None, False).run_at(PACKETS, there)
    own = found.climbed.packets[found.climbed.best]
    assert len(there) >= 10 and own == cost[there.index(found.climbed.best)] <= 1.01 * min(cost)
    assert len(found.runs["packets"]) <= 4


def test_times_are_those_of_runs_by_themselves(tmp_path: Path) -> None:
    found = searched(write(tmp_path))
    c = found.climbed
    for name, mode in (("flow", "flow"), ("packets", "off")):
        sets = [f"{key}={value}" for key, value in found.best().items()] + [f"wormhole.mode={mode}"]
        alone = pdes.simulate(pdes.load_config(tmp_path / "base.toml", sets), tmp_path / name)
        assert getattr(c, name)[c.best] == alone.summary["iteration_time_ps"][-1] / 1e12
    assert pdes.make_config(**found.best_config).workload.parallel.tp == found.best()["workload.parallel.tp"]


def test_a_search_that_is_known_runs_nothing_and_a_larger_one_only_what_is_new(tmp_path: Path) -> None:
    path = write(tmp_path)
    first, again = searched(path), searched(path)
    assert first.n_new == sum(map(len, first.runs.values())) > 0 and again.n_new == 0
    assert again.best() == first.best() and again.candidates() == first.candidates()
    more = run_search(load_search(path, tmp_path / "out", ["search.final=3"]), here)
    assert more.n_new == 1 and len(more.runs["packets"]) == len(first.runs["packets"]) + 1


def test_candidates_that_are_refused_are_rows_with_their_reason(tmp_path: Path) -> None:
    layout = SEARCH.replace("zero = [0, 1]", "zero = [0, 1]\nvpp = [1, 3]")
    path = write(tmp_path, "max_price = 17_000", AXIS + PRICE, BASE + '[workload.memory]\nsize = "2300MB"\n', layout)
    assert main(["search", str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    rows = pq.read_table(tmp_path / "out" / "candidates.parquet").to_pylist()
    refused = [row for row in rows if row["status"] == "refused"]
    assert all(row["reason"] and row["closed_s"] is None for row in refused)
    assert {row["price"] > 17_000 for row in refused if "price" in row["reason"]} == {True}
    assert all(row["memory_bytes"] <= 2.3e9 for row in rows if row["status"] == "candidate")
    facts = json.loads((tmp_path / "out" / "search.json").read_text())
    assert {"price", "[workload.memory]", "[workload.parallel] vpp"} <= set(facts["tried"]["refused"])
    assert sum(facts["tried"]["refused"].values()) == len(refused) < len(rows) == facts["tried"]["candidates"]


def test_a_candidate_with_several_faults_is_refused_too(tmp_path: Path) -> None:
    layout = SEARCH.replace("microbatch = [1]", "microbatch = [1, 3]\nep = [1, 2]")
    rows = screened(load_search(write(tmp_path, rest='[search.set]\n"workload.dtypes.dispatch" = "bf16"', search=layout,
                                      base=BASE.replace("sequence = 512", "sequence = 512\nexperts = 2"))))  # fmt: skip
    for row in rows:
        ep, size = row.values["workload.parallel.ep"], row.values["workload.microbatch"]
        assert bool(row.kind) == bool(row.reason) == (ep == 1 or size == 3) == math.isnan(row.closed_s)
        assert ("2 faults" in row.reason) == (ep == 1 and size == 3)


def test_what_comes_of_it_says_what_was_tried_and_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, 'objective = "energy"', PRICE + "[search.power]\ngpu = 700\n")
    assert main(["search", str(path), "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    for words in ("best: tp", "gap: ", "flow mode over closed form: ", "packets over flow mode: ", "J per token"):
        assert words in text
    facts = json.loads((tmp_path / "out" / "search.json").read_text())
    best = facts["best"]
    assert best["cost"] == pytest.approx(best["power"] * best["seconds"]["packets"] / best["tokens"])
    assert best["power"] == 8 * 700 and best["tokens"] == 8 * 512
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Pareto" in page and "http" not in page.split("<script")[0]
    assert main(["search", str(path), "--out", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tried"]["runs_now"] == 0


def test_a_plan_ranks_by_the_closed_form_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(write(tmp_path)), "--out", str(tmp_path / "out"), "--plan"]) == 0
    assert "candidates, 0 refused" in capsys.readouterr().out and not (tmp_path / "out").exists()


def test_from_python(tmp_path: Path) -> None:
    layout, axes = {"tp": [1, 2], "microbatch": [1]}, {"network.congestion_control": ["dctcp", "hpcc"]}
    found = pdes.search(tomllib.loads(BASE), layout, axes, out=tmp_path / "out", final=1)
    table = found.candidates().to_pydict()
    assert sorted(zip(table["congestion_control"], table["tp"], table["dp"], strict=True)) == [
        ("dctcp", 1, 8), ("dctcp", 2, 4), ("hpcc", 1, 8), ("hpcc", 2, 4),
    ]  # fmt: skip
    assert found.gap >= 0 and "the best of 4" in repr(found) and (tmp_path / "out" / "report.html").exists()


def test_conditions_leave_candidates_out(tmp_path: Path) -> None:
    path = write(tmp_path, 'where = ["workload.parallel.tp * workload.parallel.pp <= 4", "topology.gpus == 8"]')
    sizes = [
        (v["workload.parallel.tp"], v["workload.parallel.pp"]) for v in (r.values for r in screened(load_search(path)))
    ]
    assert set(sizes) == {(1, 1), (2, 1), (4, 1), (1, 2), (2, 2)}


def test_auto_is_all_that_may_be(tmp_path: Path) -> None:
    text = '[search]\nconfig = "base.toml"\n[search.layout]\n' + "\n".join(
        f'{name} = "auto"' for name in ("tp", "pp", "cp", "dp", "ep", "vpp", "microbatch", "recompute", "zero")
    )
    rows = screened(load_search(write(tmp_path, search=text.replace("{", "{{"))))
    assert [row.reason for row in rows if row.kind] == [] and len(rows) > 100
    for row in rows:
        tp, pp, cp, dp = (row.values[f"workload.parallel.{name}"] for name in ("tp", "pp", "cp", "dp"))
        assert tp * pp * cp * dp == 8 and math.isfinite(row.closed_s) and row.closed_s > 0
    assert len({json.dumps(row.values) for row in rows}) == len(rows)


def test_experts_may_be_shared_by_several_gpus(tmp_path: Path) -> None:
    """All that is chosen fits, and each is what it is in a search of its own."""
    base = BASE.replace("sequence = 512", "sequence = 512\nexperts = 4")
    text = '[search]\nconfig = "base.toml"\n[search.layout]\ntp = [2]\netp = {}\nep = {}\n'
    folder = [0]

    def rows(etp: str, ep: str) -> dict[tuple[int, int], float]:
        folder[0] += 1
        (tmp_path / str(folder[0])).mkdir()
        found = screened(load_search(write(tmp_path / str(folder[0]), search=text.format(etp, ep), base=base)))
        assert [row.reason for row in found if row.kind] == []
        return {
            (row.values["workload.parallel.etp"], row.values["workload.parallel.ep"]): row.closed_s for row in found
        }

    together = rows('"auto"', '"auto"')
    assert set(together) == {(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4), (4, 1), (4, 2)}
    assert all(rows(f"[{etp}]", f"[{ep}]") == {(etp, ep): closed_s} for (etp, ep), closed_s in together.items())
    assert len(set(together.values())) == 8


def test_a_cluster_costs_what_its_parts_do() -> None:
    config = pdes.make_config(
        topology={"kind": "roft", "gpus": 16, "gpus_per_server": 4, "nic_rate": "100Gbps", "nvlink": "packets",
                  "oversubscription": 2.0},
        workload={"kind": "poisson", "sizes": "web-search", "load": 0.1, "flows": 1},
    )  # fmt: skip
    parts = parts_of(build_topology(config))
    # 4 servers, 4 rails, 2 uplinks of each of 4 rail switches
    assert (parts.gpus, parts.servers, parts.links, parts.nic_gbps) == (16, 4, 16 + 8, 1600)
    assert parts.link_gbps == 2400 and parts.switch_gbps == 1600 + 2 * 800
    table = CostTable(gpu=1, server=10, switch=100, link=1000, nic_per_gbps=0.1, switch_per_gbps=0.01, link_per_gbps=1)
    assert parts.cost(table) == pytest.approx(16 + 40 + 100 * parts.switches + 24_000 + 160 + 32 + 2400)


@pytest.mark.parametrize(
    ("more", "rest", "message"),
    [
        ("final = 0", "", r"\[search\] final: found 0. Accepted: at least 1"),
        ("finale = 2", "", r'finale: unknown key. Did you mean "final"'),
        ('objective = "price"', "", r'objective = "price" without \[search.price\]'),
        ("max_power = 5.0", PRICE, r"max_power without \[search.power\]"),
        ("", 'recompute = ["some"]', r'recompute: found .*some.*. Accepted: "auto", or a list of "none"'),
        ("", "ep = 2", r'ep: found 2. Accepted: "auto", or a list of whole numbers'),
        ("", "[[search.axis]]\nkey = 'workload.parallel.tp'\nvalues = [1]", r"workload.parallel.tp. .*search.layout"),
        ("", "[[search.axis]]\nkey = 'topology.nic_rat'\nvalues = ['1Gbps']", r"nic_rat: unknown key"),
        ("", "[[search.axis]]\nkey = 'topology.gpus'\nfrom = 8\nto = 16", r"a range without `count`"),
        ('where = ["workload.parallel.tp > 8"]', "", "there is no candidate"),
        ('where = ["workload.tp > 8"]', "", "names workload.tp, which neither"),
        ('set = {{ "wormhole.mode" = "flow" }}'.replace("{{", "{").replace("}}", "}"), "", r"mode: found \"flow\""),
        ('set = { "workload.memory.size" = "1GB" }', "", "all 12 candidates are refused: .* need"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_runs(
    more: str, rest: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    path.write_text(SEARCH.replace("{more}", more).replace("{rest}", rest))
    with pytest.raises(pdes.ConfigError, match=message):
        screened(load_search(path))
    assert main(["search", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "Traceback" not in capsys.readouterr().err and not (tmp_path / "out" / "runs.sqlite").exists()


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (BASE.replace('gpu = "h100"', ""), r"\[workload.compute\] gpu: is missing"),
        (BASE.partition("[workload]")[0], r"\[workload\] kind: no training job"),
        (BASE.replace("[workload.parallel]\n", "[workload.parallel]\nstage_tp = [1]\n"), "stage_tp: is there"),
        (BASE.partition("[workload]")[0] + '[workload]\nkind = "poisson"', r'found "poisson"'),
    ],
)
def test_only_a_training_job_on_known_gpus_is_searched(base: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(pdes.ConfigError, match=message):
        load_search(write(tmp_path, base=base))


def test_too_many_candidates_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "MOST_CANDIDATES", 11)
    with pytest.raises(pdes.ConfigError, match="more than 11 candidates. Accepted: fewer values"):
        screened(load_search(write(tmp_path)))
    monkeypatch.setattr(space, "MOST_CANDIDATES", 12)
    assert len(screened(load_search(tmp_path / "search.toml"))) == 12


def test_one_bad_fabric_is_a_row_and_ends_nothing(tmp_path: Path) -> None:
    axis = '[[search.axis]]\nkey = "topology.oversubscription"\nvalues = [1.0, 0.5]\n'
    rows = screened(load_search(write(tmp_path, rest=axis)))
    bad = [row for row in rows if row.kind == "fabric"]
    assert len(bad) == 1 and "oversubscription" in bad[0].reason and np.isfinite([r.closed_s for r in rows]).sum() == 12


def test_the_example_is_one() -> None:
    root = Path(__file__).resolve().parents[2]
    asked = load_search(root / "examples" / "search" / "layouts.toml")
    found = space.candidates(asked)
    assert len(found) > 300 and all(candidate.fabric for candidate in found)
    last = Screen(asked)(found[-1])
    assert last.kind == "price" and Screen(asked)(found[0]).reason == ""
