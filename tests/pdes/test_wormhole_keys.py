"""Claims about the keys of [wormhole]: defaults, what contradicts itself, and what keys of earlier versions come to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pdes
from mpi.test_fluid_on_ranks import all_to_alls
from pdes.cli import main
from pdes.config import Config, config_from_dict, load_config
from pdes.config.wormhole.table import FORECASTS
from pdes.errors import ConfigError

CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "4MB"
[wormhole]
"""
FIRST = CONFIG.count("\n") + 1  # line of the first key of [wormhole]


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Config]:
    """load(keys, "key=value", ...): a config with these lines below [wormhole], and keys from a command line."""

    def loaded(keys: str, *sets: str) -> Config:
        (tmp_path / "c.toml").write_text(CONFIG + keys + "\n")
        return load_config(tmp_path / "c.toml", [f"wormhole.{text}" for text in sets])

    return loaded


def test_nothing_is_skipped_unless_a_key_says_so(load: Callable) -> None:
    w = load("").wormhole
    assert (w.mode, w.tolerance, w.audit, w.paper.forecasts, w.uses) == ("off", 0.01, 0.0, None, ())
    assert (load('mode = "exact"').wormhole.uses, load('mode = "auto"').wormhole.uses) == (FORECASTS[:2], FORECASTS[:5])
    assert [load(f'mode = "{mode}"').wormhole.wave_tolerance for mode in ("off", "exact", "auto")] == [0, 0, 0.01]


def test_forecasts_are_used_as_far_as_the_mode_allows(load: Callable) -> None:
    keys = 'mode = "auto"\npaper.forecasts = ["similar", "replay"]'
    assert load(keys).wormhole.uses == ("replay", "similar") and load(keys).wormhole.skips == "memo"
    exact = load(keys, "mode=exact").wormhole
    assert (exact.uses, exact.skips, exact.wave_tolerance) == (("replay",), "memo", 0.0)


def test_a_mode_from_the_command_line_leaves_the_tolerance_of_the_files_mode(load: Callable) -> None:
    for mode in ("off", "exact"):
        assert load('mode = "auto"\ntolerance = 0.05', f"mode={mode}").resolved() == load(f'mode = "{mode}"').resolved()
    assert load('mode = "auto"\ntolerance = 0.05', "mode=auto").wormhole.tolerance == 0.05


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('flow.efficiency = 0.9', 'flow: is there, but mode is "off". Accepted: with mode = "flow"'),
        ('mode = "flow"\nflow.efficiency = 0', 'efficiency: found 0. Accepted: "calibrated", or a number above 0'),
        ('mode = "fast"', 'mode: found "fast". Accepted: "off", "exact", "auto" or "flow"'),
        ('mode = "exact"\ntolerance = 0.02', 'tolerance: is there, but mode is "exact". Accepted: with mode = "auto"'),
        ("tolerance = 0.02", 'tolerance: is there, but mode is "off". Accepted: with mode = "auto"'),
        ('mode = "auto"\ntolerance = 0', "tolerance: found 0. Accepted: more than 0"),
        ('mode = "auto"\ntolerance = 0.6', "tolerance: found 0.6. Accepted: at most 0.5"),
        ('mode = "auto"\ntolerence = 0.1', 'tolerence: unknown key. Did you mean "tolerance"?'),
        ("paper.thta = 0.1", '[wormhole.paper] thta: unknown key. Did you mean "theta"?'),
        ('paper.forecasts = ["lanes"]', "forecasts: found ['lanes']. Accepted: a list of \"periodic\", \"rep"),
        ("paper.forecasts = []", "forecasts: found []. Accepted: a list of"),
        ('paper.forecasts = ["replay", "replay"]', "each at most once"),
        ('paper.forecasts = ["replay", "alone"]', 'forecasts: has "alone" without "similar". Accepted: with "similar"'),
        ('mode = "exact"\nmemo = "a"\npaper.forecasts = ["periodic"]', 'Accepted: with "replay" in forecasts'),
        # Old and new keys that contradict each other.
        ('mode = "exact"\nmemo_tolerance = 0.02', 'memo_tolerance: found 0.02, but mode = "exact". Accepted: mode = '),
        ('mode = "auto"\nmemo_tolerance = 0', 'memo_tolerance: found 0, but mode = "auto". Accepted: mode = "exact"'),
        ('mode = "auto"\ntolerance = 0.1\nmemo_tolerance = 0.2', "memo_tolerance: found 0.2, but tolerance = 0.1. "),
        ('mode = "exact"\nlanes = true', 'lanes: found true, but mode = "exact"'),
        ('mode = "auto"\nlanes = false\npaper.forecasts = ["replay", "similar", "alone"]', "lanes: found false, but "),
        ('mode = "full"\ntolerance = 0.1', 'mode: found "full", a mode of earlier versions, but tolerance = 0.1 is'),
        ('mode = "off"\ntolerance = 0.1\nlanes = true', 'tolerance: is there, but mode is "off"'),
        ('criterion = "paper"\npaper.criterion = "hygra"', 'but [wormhole.paper] has criterion = "hygra". Acc'),
        # Values of old keys.
        ('mode = "full"\nmemo_tolerance = 0.6', "memo_tolerance: found 0.6. Accepted: at most 0.5"),
        ('mode = "full"\nmemo_tolerance = "2%"', 'memo_tolerance: found "2%". Accepted: a number'),
        ('mode = "full"\nlanes = 1', "lanes: found 1. Accepted: true or false"),
        ("theta = 0.1", '[wormhole] theta: is there, but criterion is "default". Accepted: with criterion = "paper"'),
        ('criterion = "paper"\ntheta = 3', "[wormhole] theta: found 3. Accepted: less than 1"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_one_message(keys: str, expected: str, load: Callable) -> None:
    with pytest.raises(ConfigError) as caught:
        load(keys)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


WAVES_TOML = 'mode = "auto"\ntolerance = 0.02\npaper.forecasts = ["periodic", "replay", "similar"]'
STEADY_TOML = 'mode = "exact"\npaper.forecasts = ["periodic"]'
OLD_AND_NEW = {
    'mode = "steady"': STEADY_TOML,
    'mode = "memo"': 'mode = "exact"\npaper.forecasts = ["replay"]',
    'mode = "full"': 'mode = "exact"',
    'mode = "full"\nmemo_tolerance = 0.0\nlanes = true\nshares = true': 'mode = "exact"',
    'mode = "full"\nmemo_tolerance = 0.02': WAVES_TOML,
    'mode = "full"\nmemo_tolerance = 0.02\nshares = true': WAVES_TOML,
    'mode = "memo"\nmemo_tolerance = 0.3\nlanes = true':
        'mode = "auto"\ntolerance = 0.3\npaper.forecasts = ["replay", "similar", "alone"]',
    'mode = "full"\nmemo_tolerance = 0.01\nlanes = true\nshares = true': 'mode = "auto"',
    'mode = "steady"\nmemo_tolerance = 0.3\nlanes = true': STEADY_TOML,
    "memo_tolerance = 0.3\nlanes = true": 'mode = "off"',
    'mode = "steady"\ncriterion = "paper"\ntheta = 0.1': STEADY_TOML + '\npaper.criterion = "paper"\npaper.theta = 0.1',
    'mode = "off"\nrestoration = "none"\nsamples = 20\ncriterion = "hygra"':
        'paper.restoration = "none"\npaper.samples = 20\npaper.criterion = "hygra"',
}  # fmt: skip


@pytest.mark.parametrize("old", OLD_AND_NEW)
def test_old_keys_mean_what_they_meant_and_each_is_warned_of_once(old: str, load: Callable) -> None:
    before, now = load(old), load(OLD_AND_NEW[old])
    assert before.resolved() == now.resolved() and before.wormhole == now.wormhole
    assert now.warnings == ()
    olds = [key for key in (line.split(" =")[0] for line in old.splitlines()) if key != "mode" or '"off"' not in old]
    assert len(before.warnings) == len(olds)
    for key in olds:
        line = FIRST + [text.split(" =")[0] for text in old.splitlines()].index(key)
        assert sum(f"c.toml:{line}: [wormhole] {key}: " in text for text in before.warnings) == 1


def test_a_warning_says_what_to_write_instead(load: Callable) -> None:
    (of_mode, of_tolerance), paper = (
        load('mode = "full"\nmemo_tolerance = 0.02').warnings,
        load("theta = 0.1", "criterion=paper"),
    )
    new = 'write mode = "auto", tolerance = 0.02, [wormhole.paper] forecasts = ["periodic", "replay", "similar"]'
    assert of_mode.endswith(f'c.toml:{FIRST}: [wormhole] mode: "full" is a mode of earlier versions; {new}')
    assert of_tolerance.endswith(f"c.toml:{FIRST + 1}: [wormhole] memo_tolerance: is a key of earlier versions; {new}")
    assert [text.split(": ", 1)[1] for text in paper.warnings] == [
        'was here in earlier versions; write criterion = "paper" below [wormhole.paper]',
        "[wormhole] theta: was here in earlier versions; write theta = 0.1 below [wormhole.paper]",
    ]


WAVES = ("periodic", "replay", "similar")


@pytest.mark.parametrize(
    ("keys", "sets", "mode", "tolerance", "uses"),
    [  # the command line goes on top of the file, whichever of the two has old keys
        ('mode = "exact"', ["memo_tolerance=0.02"], "auto", 0.02, WAVES),
        ('mode = "exact"', ["memo_tolerance=0.02", "lanes=true"], "auto", 0.02, FORECASTS[:4]),
        ('mode = "exact"', ["lanes=true"], "exact", 0.01, FORECASTS[:2]),
        ('mode = "auto"\ntolerance = 0.02', ["memo_tolerance=0"], "exact", 0.01, FORECASTS[:2]),
        ('mode = "auto"\ntolerance = 0.02', ["memo_tolerance=0.05"], "auto", 0.05, FORECASTS[:5]),
        ('mode = "auto"\ntolerance = 0.02', ["mode=steady"], "exact", 0.01, ("periodic",)),
        ('mode = "auto"\ntolerance = 0.02', ["mode=full"], "auto", 0.02, FORECASTS[:5]),
        (WAVES_TOML, ["lanes=true"], "auto", 0.02, FORECASTS[:4]),
        ('mode = "auto"', ["shares=false"], "auto", 0.01, FORECASTS[:4]),
        ('mode = "full"\nmemo_tolerance = 0.02\nlanes = true', ["mode=exact"], "exact", 0.01, FORECASTS[:2]),
        ('mode = "full"\nmemo_tolerance = 0.02\nlanes = true', ["mode=off"], "off", 0.01, ()),
        ('mode = "full"\nmemo_tolerance = 0.02\nlanes = true', ["tolerance=0.05"], "auto", 0.05, FORECASTS[:4]),
        ('memo_tolerance = 0.02', ["mode=full"], "auto", 0.02, WAVES),
        ('mode = "full"', ["mode=auto", "tolerance=0.03"], "auto", 0.03, FORECASTS[:5]),
    ],
)  # fmt: skip
def test_the_command_line_goes_on_top_of_the_file(
    keys: str, sets: list[str], mode: str, tolerance: float, uses: tuple[str, ...], load: Callable
) -> None:
    w = load(keys, *sets).wormhole
    assert (w.mode, w.tolerance, w.uses) == (mode, tolerance, uses)


def test_a_new_tolerance_does_not_turn_an_old_mode_into_another(load: Callable) -> None:
    with pytest.raises(
        ConfigError, match=r'--set wormhole.tolerance: is there, but mode is "full". Accepted: with mode'
    ):
        load('mode = "full"', "tolerance=0.05")


def test_old_paper_keys_from_the_command_line_go_on_top(load: Callable) -> None:
    config = load('paper.criterion = "paper"\npaper.theta = 0.1', "theta=0.2")
    assert config.wormhole.paper.theta == 0.2
    assert config.warnings == (
        "--set wormhole.theta: was here in earlier versions; write theta = 0.2 below [wormhole.paper]",
    )
    assert load('criterion = "paper"\ntheta = 0.1', "paper.theta=0.2").wormhole.paper.theta == 0.2


def test_tables_from_python_may_have_old_keys() -> None:
    tables: dict[str, Any] = {"topology": {"kind": "fat-tree", "k": 4}, "workload": {"kind": "poisson", "load": 0.1}}
    tables["workload"] |= {"sizes": "web-search", "flows": 10}
    old = {"mode": "full", "memo_tolerance": 0.02, "lanes": True, "shares": True}
    before = config_from_dict(tables | {"wormhole": old})
    assert old == {"mode": "full", "memo_tolerance": 0.02, "lanes": True, "shares": True}  # left as it was
    now = pdes.make_config(tables, wormhole={"mode": "auto", "tolerance": 0.02})
    assert before.resolved() == now.resolved() and len(before.warnings) == 4 and now.warnings == ()
    assert before.warnings[0].startswith('config.toml: [wormhole] mode: "full" is a mode of earlier versions; ')


@pytest.mark.parametrize("name", [name for name in ("memo_tolerance", "lanes", "shares")])
def test_explain_knows_where_old_keys_went(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"wormhole.{name}"]) == 2
    now = {"memo_tolerance": "wormhole.tolerance"}.get(name, "wormhole.paper.forecasts")
    assert f"a key of earlier versions. Accepted: {now}" in capsys.readouterr().err
    assert main(["explain", now]) == 0


def test_results_are_the_same_bytes_with_old_keys_and_say_the_new_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = 'mode = "memo"\nmemo_tolerance = 0.02\nlanes = true\nshares = true\n'
    new = 'mode = "auto"\ntolerance = 0.02\npaper.forecasts = ["replay", "similar", "alone", "shares"]\n'
    text = all_to_alls(tmp_path, 3, 0.0)
    assert new in text
    for name, keys in (("old", old), ("new", new)):
        (tmp_path / f"{name}.toml").write_text(text.replace(new, keys))
        assert main([str(tmp_path / f"{name}.toml"), "--quiet", f"--out={tmp_path / name}"]) == 0
        assert capsys.readouterr().err.count("pdes-sim: warning: ") == (4 if name == "old" else 0)
    for name in ("flows.parquet", "ports.parquet", "result.json"):
        assert (tmp_path / "old" / name).read_bytes() == (tmp_path / "new" / name).read_bytes(), name
    result = json.loads((tmp_path / "old" / "result.json").read_text())
    keys = result["config"]["wormhole"]
    assert (keys["mode"], keys["tolerance"]) == ("auto", 0.02) and "memo_tolerance" not in keys and "lanes" not in keys
    assert keys["paper"]["forecasts"] == ["replay", "similar", "alone", "shares"]
    assert result["fast_forward"]["skipped_packet_hops"]["fluid"] > 0
