"""Claims about the keys for what is looked at during a run: [output] sample_* and [network.pfc] deadlock_check."""

import tomllib

import pytest

from pdes.config import Config, config_from_dict
from pdes.errors import ConfigError

BASE = (
    '[topology]\nkind = "fat-tree"\nk = 4\n[workload]\nkind = "collectives"\n'
    '[[workload.collective]]\nname = "ring"\noperation = "all-reduce"\nsize = "4MB"\n'
)
LIMITED = '[network.buffer]\nsize = "auto"\n'


def config(text: str) -> Config:
    return config_from_dict(tomllib.loads(BASE + text))


def test_samples_are_off_unless_there_is_an_interval() -> None:
    assert config("").output.sample_interval_ps is None
    output = config('[output]\nsample_interval = "10us"\nsample = ["flows"]\nsample_limit = "2MB"\n').output
    assert (output.sample_interval_ps, output.sample, output.sample_limit_bytes) == (10**7, ["flows"], 2 * 10**6)
    assert config('[output]\nsample_interval = "1ns"\n').output.sample == ["ports", "flows"]


def test_samples_are_no_part_of_what_determines_a_result() -> None:
    assert config('[output]\nsample_interval = "10us"\n').resolved() == config("").resolved()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('sample_interval = "0s"', r"\[output\] sample_interval: .*Accepted: a value above zero"),
        ("sample_interval = 10", r"\[output\] sample_interval: .*10"),
        ('sample_interval = "1us"\nsample = ["port"]', r'\[output\] sample: found .*Accepted: a list of "ports", "fl'),
        ('sample_interval = "1us"\nsample = []', r"\[output\] sample: found .*each at most once"),
        ('sample_interval = "1us"\nsample = ["ports", "ports"]', r"\[output\] sample: found .*each at most once"),
        ('sample_interval = "1us"\nsample = "ports"', r"\[output\] sample: found .*a list of"),
        ('sample = ["ports"]', r"\[output\] sample: is there, but sample_interval is not"),
        ('sample_limit = "5MB"', r"\[output\] sample_limit: is there, but sample_interval is not"),
        ('sample_interval = "1us"\nsample_limit = "5kB"', r"\[output\] sample_limit: found 5kB. Accepted: at least 1M"),
        ('sample_intervall = "1us"', r'unknown key. Did you mean "sample_interval"'),
    ],
)
def test_faults_name_the_key_and_what_is_accepted(keys: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        config(f"[output]\n{keys}\n")


@pytest.mark.parametrize(
    ("text", "check_ps"),
    [
        ("", None),
        (LIMITED, 10**9),
        (LIMITED + "[network.pfc]\nenabled = false\n", None),
        (LIMITED + '[network.pfc]\ndeadlock_check = "auto"\n', 10**9),
        (LIMITED + '[network.pfc]\ndeadlock_check = "50us"\n', 5 * 10**7),
        (LIMITED + '[network.pfc]\ndeadlock_check = "off"\n', None),
        ('[network]\ncompatibility = "ns3-hpcc"\n' + LIMITED, None),
        ('[network]\ncompatibility = "ns3-hpcc"\n' + LIMITED + '[network.pfc]\ndeadlock_check = "1ms"\n', 10**9),
    ],
)
def test_deadlocks_are_looked_for_where_switches_pause(text: str, check_ps: int | None) -> None:
    assert config(text).network.deadlock_check_ps == check_ps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[network.pfc]\ndeadlock_check = "1ms"\n', r"\[network.pfc\] deadlock_check: is there, but switches send no "),
        (LIMITED + '[network.pfc]\ndeadlock_check = "on"\n', r'\[network.pfc\] deadlock_check: .*"auto" or "off", or '),
        (LIMITED + '[network.pfc]\ndeadlock_check = "0s"\n', r"\[network.pfc\] deadlock_check: .*above zero"),
    ],
)
def test_a_wrong_check_is_named(text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        config(text)
