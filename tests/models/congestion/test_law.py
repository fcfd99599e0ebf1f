"""Loading a congestion control: by name or a user's file, its faults told in a line; parameters; exceptions."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from models.congestion.interface import (
    EVENT,
    EVENT_HOP_QUEUE,
    EVENT_HOP_RATE,
    EVENT_HOP_TIME,
    EVENT_HOP_TX,
    EVENT_N_HOP,
    EVENT_RETIME,
    FLOW_TIMER,
    N_EVENT_WORD,
    N_FLOW_WORD_FIXED,
    NEVER,
)
from models.congestion.law import BUILT_IN, find_law
from pdes.engine.jit import JIT_DISABLED
from pdes.errors import ConfigError
from reference.control_driver import Driver, HandlerError

GOOD = (Path(__file__).resolve().parents[3] / "examples" / "my_cc.py").read_text()
GBPS = 10**9
compiled_only = pytest.mark.skipif(JIT_DISABLED, reason="needs the compiler")


def users(folder: Path, text: str = GOOD, name: str = "Aimd"):
    (folder / "my_cc.py").write_text(text)
    return find_law(f"my_cc.py:{name}", folder)


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_control_of_ours_loads_compiles_and_travels(name):
    law = find_law(name)
    assert pickle.loads(pickle.dumps(law)) == law
    assert law.digest == ""
    assert any(law.compile()[:5])
    for constants in ("default", *getattr(law.control, "papers", {})):
        parameters = law.make_parameters(law.parameter_values({}, constants), [25 * GBPS, 400 * GBPS])
        assert len(parameters) == 2
    assert law.flow_dtype.itemsize % 8 == 0
    assert law.flow_dtype.fields["timer_ps"][1] == 8 * FLOW_TIMER
    assert law.make_flows(3)["timer_ps"].tolist() == [[NEVER] * 4] * 3
    assert law.control.__doc__


def test_word_offsets_are_those_of_the_records():
    fields = {name: offset // 8 for name, (_, offset) in EVENT.fields.items()}
    assert (fields["n_hop"], fields["retime"]) == (EVENT_N_HOP, EVENT_RETIME)
    hops = ("hop_time_ps", "hop_tx_bytes", "hop_queue_bytes", "hop_rate_bps")
    assert [fields[hop] for hop in hops] == [EVENT_HOP_TIME, EVENT_HOP_TX, EVENT_HOP_QUEUE, EVENT_HOP_RATE]
    assert EVENT.itemsize == 8 * N_EVENT_WORD
    assert find_law("dctcp").flow_dtype.fields["alpha"][1] == 8 * N_FLOW_WORD_FIXED


def test_the_state_starts_as_the_class_says():
    flows = find_law("dctcp").make_flows(2)
    assert (flows["alpha"].tolist(), flows["batch"].tolist()) == ([1.0, 1.0], [0, 0])
    assert find_law("hpcc").make_flows(1)["hop_time_ps"].tolist() == [[0] * 8]


def test_a_users_control_runs(tmp_path):
    law = users(tmp_path)
    assert (law.name, law.header_bytes, law.needs, law.window) == ("my_cc", 0, (), "max-bdp")
    assert law.digest == hashlib.sha256(GOOD.encode()).hexdigest()
    cc = Driver(pickle.loads(pickle.dumps(law)))
    cc.ack(1000, 9000, is_marked=1)
    assert cc.flow.rate_bps == int(101 * GBPS * 0.7)
    cc.ack(2000, 9000, is_marked=1)  # of the same round trip
    assert cc.flow.rate_bps == int(101 * GBPS * 0.7)


def test_ranks_need_the_law_not_the_file(tmp_path):
    law = pickle.dumps(users(tmp_path))
    (tmp_path / "my_cc.py").unlink()
    assert pickle.loads(law).compile().on_ack


def test_functions_of_the_file_may_be_called(tmp_path):
    helper = "def less(x, share):\n    return int(x * (1 - share))\n\n\n"
    cc = Driver(users(tmp_path, helper + changed("int(flow.rate_bps * (1 - p.cut))", "less(flow.rate_bps, p.cut)")))
    cc.ack(1000, 9000, is_marked=1)
    assert cc.flow.rate_bps == int(101 * GBPS * 0.7)


def test_a_control_of_ours_may_be_built_on(tmp_path):
    text = (
        "from models.congestion.dctcp import Dctcp\n\n\nclass Mild(Dctcp):\n    state = Dctcp.state | {'alpha': 0.5}\n"
    )
    cc = Driver(users(tmp_path, text, "Mild"))
    cc.ack(1000, 9000, is_marked=1)
    assert cc.flow.rate_bps == 75 * GBPS


def test_an_installed_package_may_bring_a_control(tmp_path, monkeypatch):
    package, metadata = tmp_path / "their_cc", tmp_path / "their_cc-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text("")
    (package / "share.py").write_text("CUT = 0.5\n")
    (package / "aimd.py").write_text("from .share import CUT\n" + changed('"cut": 0.3', '"cut": CUT'))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-cc\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[pdes_sim.congestion_control]\ntheirs = their_cc.aimd:Aimd\n")
    monkeypatch.syspath_prepend(tmp_path)
    law = find_law("theirs")
    assert (law.name, law.parameter_values({})["cut"]) == ("theirs", 0.5)
    assert len(law.digest) == 64
    with pytest.raises(ConfigError, match='found "their". Did you mean "theirs"'):
        find_law("their")


CUT = "flow.rate_bps = max(p.min_rate_bps, int(flow.rate_bps * (1 - p.cut)))"
FAULTS = [
    ("if event.is_marked and", "if event.is_marked and and", r"line 20: invalid syntax"),
    ("flow.rate_bps += ", "flow.rat_bps += ", r'line 19: flow.rat_bps does not exist. Did you mean "rate_bps"'),
    ("event.is_marked and", "event.marked and", r'line 20: event.marked does not exist. Did you mean "is_marked"'),
    ("p.cut)", "p.cutt)", r'line 22: p.cutt does not exist. Did you mean "cut"'),
    (
        "flow.cut_end = ",
        "flow.line_rate_bps = ",
        r"line 21: flow.line_rate_bps is written. Handlers may write rate_bps",
    ),
    ("flow.cut_end = ", "p.cut = ", r"line 21: p.cut is written. Parameters are constant"),
    (CUT, "flow.rate_bps = rate", r"line 22: rate is not defined"),
    (CUT, "return 5", r"line 22: on_ack returns a value. Handlers return nothing"),
    (CUT, "import math", r"line 22: import inside a handler"),
    ("def on_ack(", "def on_ak(", r'has an unknown attribute "on_ak". Did you mean "on_ack"'),
    ("(flow, event, p)", "(flow, event)", r"line 16: on_ack\(flow, event\). Three arguments"),
    ('"cut_end": 0', '"cut_end": "x"', r"state \"cut_end\" starts as 'x'. Accepted: an int, a float, or a tuple"),
    ('"cut_end": 0', '"cut_end": [0]', r"state \"cut_end\" starts as \[0\]"),
    ('"cut_end": 0', '"rate_bps": 0', r"state 'rate_bps' is a field of every flow"),
    ('"cut_end": 0', '"item": 0', r"state 'item' means something else on a record of NumPy"),
    ('"cut_end": 0', '"a b": 0', r"state 'a b' is not a name"),
    ('"100Mbps"', '"100Mbit"', r'parameter "min_rate_bps": found "100Mbit", which has the unit "Mbit"'),
    ('"cut": 0.3', '"cut": "0.3"', r"parameter \"cut\" is '0.3': text needs a name that ends in _ps"),
    ('"cut": 0.3', '"cut": [1]', r"parameter \"cut\" is \[1\]: found list"),
    ('"max-bdp"', '"bdp"', r"window = 'bdp'. Accepted: one of none, max-bdp, pair-bdp"),
    ("(100_000, 400_000, 0.2)", "(4, 1, 0.2)", r"ecn_at_100g = \(4, 1, 0.2\). Accepted: \(kmin_bytes"),
    ("class Aimd:", "class Aimd(Nothing):", r"line 6: NameError: name 'Nothing' is not defined"),
]
TYPE_FAULTS = [
    (CUT, "flow.rate_bps = 'fast'", r"line 22: cannot be compiled: "),
    (CUT, "flow.rate_bps = event.now_ps + 'x'", r"line 22: cannot be compiled: add\(int64, x\) is not supported"),
    (CUT, "x = flow\n            x.rat_bps = 1", r'line 23: a record has no field "rat_bps"'),
    (CUT, "x = [event.now_ps]\n            flow.rate_bps = x[0] + len(x)", r"line 22: .* it makes a list, an array"),
    ('"cut_end": 0', '"cut_end": 0, "t": (1, 2)', r"line 21: cannot be compiled: .*nestedarray"),
]


@pytest.mark.parametrize(("old", "new", "message"), FAULTS)
def test_a_fault_in_a_users_file_is_told_with_its_line(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=message) as caught:
        users(tmp_path, changed(old, new))
    assert str(caught.value).startswith(str(tmp_path / "my_cc.py"))
    assert "\n" not in str(caught.value)


@compiled_only
@pytest.mark.parametrize(("old", "new", "message"), TYPE_FAULTS)
def test_a_fault_of_types_is_told_in_a_line(tmp_path, old, new, message):
    text = changed(old, new).replace("flow.cut_end = ", "flow.t = " if '"t"' in new else "flow.cut_end = ")
    with pytest.raises(ConfigError, match=message) as caught:
        users(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "my_cc.py"))
    assert len(str(caught.value)) < 500


NAMES = [
    ("dctpc", r'\[network\] congestion_control: found "dctpc". Did you mean "dctcp"\? A file of yours is written'),
    ("absent.py:X", r"cannot read .*absent.py: No such file"),
    ("my_cc.py", r'found "my_cc.py". A file and a class in it, such as "my_cc.py:MyControl"'),
    ("my_cc.py:Amid", r'has no class "Amid". Classes here: Aimd'),
    ("my_cc.py:int", r'has no class "int"'),
]


@pytest.mark.parametrize(("name", "message"), NAMES)
def test_a_name_that_is_none_is_told(tmp_path, name, message):
    (tmp_path / "my_cc.py").write_text(GOOD)
    with pytest.raises(ConfigError, match=message):
        find_law(name, tmp_path)


def test_parameters_are_parsed_by_suffix_and_scaled_unless_given(tmp_path):
    law = users(tmp_path)
    values = law.parameter_values({"cut": 1, "min_rate": "2Gbps"})
    parameters = law.make_parameters(values, [100 * GBPS, 25 * GBPS])
    assert parameters["cut"].tolist() == [1.0, 1.0]
    assert parameters["min_rate_bps"].tolist() == [2 * GBPS] * 2
    assert parameters["increase_bps"].tolist() == [GBPS, GBPS // 4]
    given = law.make_parameters(law.parameter_values({"increase": "3Gbps"}), [100 * GBPS, 25 * GBPS])
    assert given["increase_bps"].tolist() == [3 * GBPS] * 2
    assert law.parameter_values({"increase": "auto", "min_rate_bps": "1Gbps"}) == law.parameter_values(
        {"min_rate": "1Gbps"}
    )


PARAMETERS = [
    ("dctcp", {"gian": 0.1}, r'\[network.dctcp\] gian: unknown key. Did you mean "gain"'),
    ("dctcp", {"gain": 2}, r"\[network.dctcp\] gain: found 2.0. Accepted: at least 0.0 and at most 1.0"),
    ("dctcp", {"gain": "x"}, r'gain: found "x". Accepted: a finite number'),
    ("dctcp", {"gain": float("inf")}, r"gain: found inf. Accepted: a finite number"),
    ("dctcp", {"gain": True}, r"gain: found true. Accepted: a finite number"),
    ("dctcp", {"min_rate": 10**9}, r"min_rate: found 1000000000, which is not text. Accepted: a rate with its unit"),
    ("dctcp", {"min_rate": "1us"}, r'min_rate: found "1us", which has the unit "us"'),
    ("dcqcn", {"alpha_interval": "0us"}, r'alpha_interval: found 0 ps. Accepted: at least "1ns"'),
    ("dcqcn", {"clamp_target": 1}, r"clamp_target: found 1. Accepted: true or false"),
    ("hpcc", {"max_stage": 1.5}, r"max_stage: found 1.5. Accepted: a whole number"),
    ("hpcc", {"max_stage": 2**70}, r"max_stage: found \d+. Accepted: a whole number of at most 63 bits"),
]


@pytest.mark.parametrize(("name", "given", "message"), PARAMETERS)
def test_a_wrong_parameter_is_told_with_its_key(name, given, message):
    with pytest.raises(ConfigError, match=message):
        find_law(name).parameter_values(given)


def test_the_papers_constants_are_a_named_set():
    law = find_law("dcqcn")
    assert law.parameter_values({}, "paper")["fast_recovery_times"] == 5
    assert law.parameter_values({"fast_recovery_times": 7}, "paper")["fast_recovery_times"] == 7
    with pytest.raises(ConfigError, match=r'\[network.dcqcn\] constants: found "papr". Did you mean "paper"'):
        law.parameter_values({}, "papr")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("flow.rate_bps = 5 // event.rtt_ps", r"my_cc.py: .*lines? 22: on_ack raised \w+: .*|at one of the lines 22"),
        ("raise ValueError('no')", r"my_cc.py: line 22: on_ack raised ValueError: no, at: raise ValueError"),
    ],
)
def test_an_exception_of_a_handler_is_told_with_its_line(tmp_path, statement, message):
    cc = Driver(users(tmp_path, changed(CUT, statement)))
    cc.ack(500, 900)
    with pytest.raises(HandlerError, match=message):
        cc.ack(1000, 9000, is_marked=1)  # the state has changed when it raises: running it again would not


def test_an_exception_is_explained_by_running_it_again(tmp_path):
    cc = Driver(users(tmp_path, changed(CUT, "flow.rate_bps = 5 // event.rtt_ps")))
    event = np.zeros(1, EVENT)
    event["acked_byte"], event["is_marked"] = 1000, 1
    text = cc.law.explain("on_ack", cc.flow, event, cc.p)
    assert "my_cc.py: line 22: on_ack raised" in text
    assert text.endswith("at: flow.rate_bps = 5 // event.rtt_ps")
