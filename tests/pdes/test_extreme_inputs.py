"""What no parser may choke on: deep nesting, endless digits, files that never end. One message, status 2, at once."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdes.cli import main
from pdes.config import load_config
from pdes.errors import ConfigError, closest, shortened
from pdes.files import MAX_DEPTH, read_json
from pdes.units import QuantityError, exact_number, parse_rate_bps, shown, whole_number
from reference import made_traces as made

DEEP, DIGITS = 20_000, "9" * 5000
BUDGET_S, LONGEST_S = 20, 120  # of processor time; of time in which nothing is done
LEAF_SPINE = '[topology]\nkind = "leaf-spine"\nleaves = 2\nspines = 1\nhosts_per_leaf = 2\n'
RING = (
    '[workload]\nkind = "collectives"\n[[workload.collective]]\nname = "r"\noperation = "all-reduce"\nsize = "20kB"\n'
)
FLOWS = '[workload]\nkind = "flows"\n'


@pytest.fixture(autouse=True)
def budget() -> Iterator[None]:
    """A case that hangs fails instead."""

    def give_up(*_: object) -> None:
        raise AssertionError(f"not done within {BUDGET_S} s of processor time, {LONGEST_S} s in all")

    before = {number: signal.signal(number, give_up) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, BUDGET_S)
    signal.alarm(LONGEST_S)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)
    for number, handler in before.items():
        signal.signal(number, handler)


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command says, which ends with status 2."""
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert said.count("pdes-sim: error") == 1 and "Traceback" not in said and len(said) < 3000, said[:3000]
    return said


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"x = {'[' * DEEP}{']' * DEEP}\n", f"line 6: is nested more than {MAX_DEPTH} levels deep"),
        (f"x = {'{a=' * DEEP}1{'}' * DEEP}\n", "line 6: is nested more than"),
        (f"[{'a.' * DEEP}a]\n", "is nested more than"),
        (f"x = {'[' * 100}{']' * 100}\n", "is nested more than"),
        (f"x = {DIGITS}\n", f"line 6: found {'9' * 20}"),
        (f"x = 0x{'f' * 5000}\n", "[topology] x: is a whole number of more than 40 digits"),
        (f"x = [1, {DIGITS}]\n", "line 6: found 999"),
        (f"leaves_ = '{'x' * 10**6}'\n", "unknown key"),
    ],
)
def test_a_config_that_is_deep_or_long_is_refused_with_its_line(
    text: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "deep.toml"
    config.write_text(LEAF_SPINE + text + RING)
    said = refused(["plan", str(config)], capsys).replace(", line", ": line")
    assert found in said and str(config) in said


@pytest.mark.parametrize(
    ("override", "found"),
    [
        (f"simulation.seed={DIGITS}", "--set simulation.seed: is a whole number of more than 40 digits"),
        (f"simulation.seed={'[' * DEEP}{']' * DEEP}", "--set simulation.seed: is nested more than"),
        (f"{'a.' * DEEP}a=1", "is nested more than"),
        (f"workload.collective.{DIGITS}.size='1kB'", "is no position"),
        (f"topology.host_rate={DIGITS * 400}Gbps", "--set topology.host_rate: is a whole number of"),
        (f"topology.host_rate='{DIGITS * 400}Gbps'", "characters long"),
    ],
)
def test_an_override_that_is_deep_or_long_is_refused_with_its_key(
    override: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.toml").write_text(LEAF_SPINE + RING)
    assert found in refused(["plan", str(tmp_path / "c.toml"), "--set", override], capsys)


def test_a_quantity_of_millions_of_digits_is_shown_short() -> None:
    with pytest.raises(QuantityError, match=r'found "9{56}\.\.\., which is 2,000,004 characters long') as caught:
        parse_rate_bps("9" * 2_000_000 + "Gbps")
    assert len(str(caught.value)) < 400


def test_numbers_in_text_are_bounded() -> None:
    assert (whole_number("12"), exact_number("2.5e-3") * 400) == (12, 1)
    for text in (DIGITS, "1.5", "x"):
        with pytest.raises(ValueError, match="9999 has|digits|invalid literal"):
            whole_number(text)
    for text in (f"1.{DIGITS}", "1e-999999999", "1e999999999", "nan", "1/3"):
        with pytest.raises(ValueError, match="is no number"):
            exact_number(text)


def test_what_a_message_quotes_is_cut() -> None:
    assert shown(10**5000) == "a whole number of 16,610 bits"
    assert shown([10**5000]) == "a list or a table, very long or deep"
    error = ConfigError("a.txt", f"found {DIGITS}", "less")
    assert str(error) == f"a.txt: found {'9' * 57}...{'9' * 20}. Accepted: less"
    assert len(shortened("a b " * 10**6)) < 5000


def test_json_says_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text, found in (
        ('{\n"a": ' + "[" * DEEP + "]" * DEEP + "}", r"x.json, line 2: is nested more than"),
        ('{\n"a": ' + "[" * 90 + "]" * 90 + "}", r"x.json, key a\.0\.0.*: is nested more than"),
        ('{\n"a":\n' + DIGITS + "}", r"x.json, line 3: found 999"),
        ('{"a": [' + "9" * 100 + "]}", r"x.json, key a\.0: is a whole number of more than 40 digits"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=found):
            read_json(path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "config",
    [
        '[topology]\nkind = "file"\nfile = "NAME"\n' + RING,
        LEAF_SPINE + FLOWS + 'file = "NAME"\nformat = "csv"\n',
        LEAF_SPINE + FLOWS + 'file = "NAME"\nformat = "ns3"\n',
        LEAF_SPINE + '[workload]\nkind = "poisson"\nload = 0.1\nflows = 3\nsizes = "NAME"\n',
        *(
            LEAF_SPINE + f'[workload]\nkind = "trace"\nformat = "{form}"\nfile = "NAME"\n'
            for form in ("chakra", "goal", "simai", "astra-sim-text", "htsim", "profile")
        ),
        LEAF_SPINE + '[workload]\nkind = "trace"\nformat = "chakra"\nfile = "c.toml"\ncommunicators = "NAME"\n',
        LEAF_SPINE + '[workload]\nkind = "trace"\nformat = "chakra"\nfile = "trace"\nsystem = "NAME"\n',
        LEAF_SPINE + RING.replace("collectives", 'collectives"\ngpu = "h100') + 'msccl = "NAME"\n',
        LEAF_SPINE + RING + '[network]\nnext_hops_file = "NAME"\n',
        LEAF_SPINE + RING + '[network]\npaths_file = "NAME"\n',
        LEAF_SPINE + RING + '[network]\ncongestion_control = "NAME:Own"\n',
    ],
)
def test_a_file_that_never_ends_is_refused(
    kind: str, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = str(tmp_path / "endless.py")
    if kind == "pipe":
        os.mkfifo(endless)
    else:
        os.symlink("/dev/zero", endless)
    made.write_chakra(tmp_path, "trace", made.two_ranks())
    path = tmp_path / "c.toml"
    path.write_text(config.replace("NAME", endless))
    said = refused(["plan", str(path)], capsys)
    assert endless in said and f"it is a {kind}, which may never end" in said


def test_a_config_or_a_case_that_never_ends_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "tree").write_text("3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n")
    out = ["-o", str(tmp_path / "out.toml")]
    for argv in (
        ["plan", str(pipe)], ["plan", "/dev/zero"], [str(pipe), "--out", str(tmp_path / "out")],
        ["convert", "htsim", "/dev/zero", "-w", str(pipe), *out],
        ["convert", "astra-sim", str(pipe), "-w", str(pipe), *out],
        ["convert", "simai", str(tmp_path / "tree"), "-w", str(pipe), *out],
        ["convert", "htsim", str(tmp_path / "tree"), "-w", "/dev/zero", *out],
        *(["convert", form, str(pipe), *out] for form in ("kineto", "nsight", "megatron", "nemo")),
    ):  # fmt: skip
        assert "may never end" in refused(argv, capsys)
    assert "no such file" in refused(["convert", "simai", str(pipe), "-w", str(pipe), *out], capsys)
    (tmp_path / "manifest.json").symlink_to(pipe)
    assert "may never end" in capsys_of_resume(tmp_path, capsys)


def capsys_of_resume(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of a folder of checkpoints that is none: a warning, and then the error."""
    assert main(["--resume", str(folder)]) == 2
    return capsys.readouterr().err


def test_names_that_differ_by_capitals_and_hyphens_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert closest("llama-3-70b", ["llama2-70b", "llama3-70b"]) == "llama3-70b"
    assert closest("H100", ["h200", "h100-500w", "h100"]) == "h100" and closest("zzz", ["abc"]) is None
    for word, meant in (("reprot", "report"), ("Report", "report"), ("time-line", "timeline"), ("convrt", "convert")):
        assert main([word, "results"]) == 2
        assert f'{word} is no command, and no file. Did you mean "{meant}"?' in capsys.readouterr().err
    path = tmp_path / "c.toml"
    path.write_text(
        '[topology]\nkind = "Fat_tree"\nk = 4\n[workload]\nkind = "training"\npreset = "llama-3-70b"\n'
        '[workload.parallel]\ntp = 1\ndp = 1\npp = 1\n[workload.compute]\ngpu = "H100"\n'
    )
    with pytest.raises(ConfigError, match='Did you mean "fat-tree"') as caught:
        load_config(path)
    assert 'Did you mean "llama3-70b"?' in str(caught.value)
    path.write_text(path.read_text().replace("Fat_tree", "fat-tree").replace("llama-3", "llama3"))
    with pytest.raises(ConfigError, match='found "H100".* Did you mean "h100"'):
        load_config(path)


def test_a_key_of_another_kind_says_which_kinds_have_it(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    for key, expected in (
        ("pods", r'unknown key\. It is a key of \[topology\] of kind "three-tier"$'),
        ("global_links", r'unknown key\. It is a key of \[topology\] of kind "dragonfly"$'),
        ("servers_per_rail_switch", "is there, and gpus is not. Accepted: with gpus, which sizes follow from$"),
    ):
        path.write_text(LEAF_SPINE + f"{key} = 2\n" + RING)
        with pytest.raises(ConfigError, match=rf"c.toml:6: \[topology\] {key}: {expected}"):
            load_config(path)


def test_rates_in_bytes_are_warned_of_where_bits_are_the_custom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(LEAF_SPINE + 'host_rate = "400GB/s"\n' + RING)
    config = load_config(path, ["topology.spine_rate=12.5GBps"])
    assert config.warnings == (
        f'{path}:6: [topology] host_rate: "400GB/s" is 3.2 Tbps; write 400Gbps if bits were meant',
        '--set topology.spine_rate: "12.5GBps" is 100 Gbps; write 12.5Gbps if bits were meant',
    )
    assert main(["plan", str(path)]) == 0
    assert f"pdes-sim: warning: {config.warnings[0]}\n" in capsys.readouterr().err
    (tmp_path / "net.txt").write_text("3 1 2\n2\n0 2 400GB/s 1us 0\n1 2 400GB/s 1us 0\n")
    path.write_text('[topology]\nkind = "file"\nfile = "net.txt"\n' + RING)
    assert main(["plan", str(path)]) == 0
    meant = '"400GB/s" is 3.2 Tbps; write 400Gbps if bits were meant (links with it: 2)'
    assert f"pdes-sim: warning: {tmp_path / 'net.txt'}, line 3: {meant}\n" in capsys.readouterr().err
    devices = '[workload.devices.own]\nlike = "h100"\nnvlink = "450GB/s"\nmemory_bandwidth = "3GB/s"\n'
    path.write_text(LEAF_SPINE + RING.replace("collectives", 'collectives"\ngpu = "own') + devices)
    assert load_config(path).warnings == ()
    path.write_text(LEAF_SPINE + RING + '[network.hpcc]\nmin_rate = "1GB/s"\n')
    assert [text.split(": ")[1] for text in load_config(path).warnings] == ["[network.hpcc] min_rate"]
