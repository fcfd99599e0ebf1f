"""Claims about the way from a config to a run: what is built, what only then can be refused, what identifies it."""

from pathlib import Path

import numpy as np
import pytest

from pdes.config import load_config
from pdes.errors import ConfigError
from pdes.plan import print_plan
from pdes.scenario import Scenario, build_scenario

FAT_TREE = '[topology]\nkind = "fat-tree"\nk = 4\nhost_delay = "500ns"\n'


def scenario(folder: Path, text: str) -> Scenario:
    (folder / "config.toml").write_text(text)
    return build_scenario(load_config(folder / "config.toml"))


def collective(name: str, *after: str) -> str:
    return (
        f'[[workload.collective]]\nname = "{name}"\noperation = "all-gather"\nsize = "1MB"\n'
        f"gpus = [0, 1]\nafter = {list(after)}\n"
    )


def test_collectives_may_stand_before_those_they_wait_for(tmp_path: Path) -> None:
    jobs = [collective("last", "first", "middle"), collective("middle", "first"), collective("first")]
    text = FAT_TREE + '[workload]\nkind = "collectives"\n'
    mixed, sorted_ = (scenario(tmp_path, text + "".join(order)).plan for order in (jobs, jobs[::-1]))
    assert np.array_equal(mixed.operations, sorted_.operations) and np.array_equal(mixed.slots, sorted_.slots)


def test_what_only_the_build_can_refuse_names_the_config_and_the_key(tmp_path: Path) -> None:
    links = "".join(f"{gpu} 16 100Gbps 1us 0\n" for gpu in range(16))
    (tmp_path / "star.txt").write_text("17 1 16\n16\n" + links)
    text = '[topology]\nkind = "file"\nfile = "star.txt"\n[workload]\nkind = "training"\npreset = "gpt-7b"\n'
    with pytest.raises(ConfigError) as caught:
        scenario(tmp_path, text + "parallel = { tp = 8, dp = 4, pp = 2 }\n")
    assert str(caught.value).startswith(f"{tmp_path / 'config.toml'}:7: [workload.parallel]")
    assert "64" in caught.value.found and "16" in caught.value.found


@pytest.mark.parametrize(
    ("preset", "ep", "accepted"), [("gpt-7b", 2, "1 for a dense model"), ("moe-8x7b", 16, "a divisor of the experts")]
)
def test_experts_that_a_preset_has_not_are_refused(tmp_path: Path, preset: str, ep: int, accepted: str) -> None:
    text = f'[topology]\nkind = "roft"\ngpus = 64\n[workload]\nkind = "training"\npreset = "{preset}"\n'
    with pytest.raises(ConfigError) as caught:
        scenario(tmp_path, text + f"parallel = {{ tp = 8, dp = 4, pp = 2, ep = {ep} }}\n")
    assert str(caught.value).startswith(f"{tmp_path / 'config.toml'}:7: [workload.parallel] ep: {ep}")
    assert caught.value.accepted == accepted


def test_a_model_with_experts_is_what_its_keys_say(tmp_path: Path) -> None:
    text = '[topology]\nkind = "roft"\ngpus = 16\n[workload]\nkind = "training"\n'
    text += "[workload.model]\nlayers = 2\nhidden = 64\nexperts = 6\ntop_k = 3\n"
    text += "[workload.parallel]\ntp = 4\ndp = 2\npp = 2\nep = 2\n"
    facts = scenario(tmp_path, text).plan.facts
    assert (facts["layout"], facts["experts_per_gpu_and_layer"]) == ("TP4-EP2-DP2-PP2", 3)
    assert facts["all_to_all_bytes_per_gpu"] == 3 * 2 * 2048 * 64 // 4


RING = '[workload]\nkind = "collectives"\n' + collective("ring")


@pytest.mark.parametrize(
    ("mode", "threshold", "n_lp", "lookahead_ps"),
    [
        ("exact", "500ns", 36, 500_000), ("exact", "501ns", 20, 10**6), ("exact", "2us", 1, 10**7),
        ("off", "500ns", 36, 500_000), ("off", "501ns", 34, 10**7 << 13), ("off", "2us", 34, 10**7 << 13),
    ],
)  # fmt: skip
def test_the_threshold_cuts_and_is_part_of_the_identity(
    tmp_path: Path, mode: str, threshold: str, n_lp: int, lookahead_ps: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without fast-forwarding only links that carry something count: here those of two GPUs to their switch.

    4,000 packet-hops in 42 us: a round of 2^23 is 87.9 ms long, of which 81.92 ms are 10 us doubled 13 times.
    """
    partition = f'[partition]\ndelay_threshold = "{threshold}"\n[wormhole]\nmode = "{mode}"\n'
    built = scenario(tmp_path, FAT_TREE + RING + partition)
    assert (built.n_lp, built.lookahead_ps) == (n_lp, lookahead_ps)
    assert built.identity()["partition"]["delay_threshold_ps"] == built.threshold_ps > 0
    assert "placement" not in built.identity()["partition"]
    print_plan(built)
    assert ", as given" in capsys.readouterr().out


def test_rounds_are_short_where_somebody_looks_at_their_ends(tmp_path: Path) -> None:
    """Samples and deadlocks: 10 us at most; else a round has 2^23 packet-hops."""
    keys = '[partition]\ndelay_threshold = "2us"\n'

    def lookahead_ps(more: str) -> int:
        return scenario(tmp_path, FAT_TREE + RING + keys + more).lookahead_ps

    assert lookahead_ps("") == 10**7 << 13
    assert lookahead_ps('[output]\nsample_interval = "100us"\n') == 10**7
    assert lookahead_ps('[network.buffer]\nsize = "10MB"\n') == 10**7
    assert lookahead_ps('[network.buffer]\nsize = "10MB"\n[network.pfc]\ndeadlock_check = "off"\n') == 10**7 << 13


def test_what_may_drop_pause_or_choose_says_nothing_of_outputs(tmp_path: Path) -> None:
    def longest_ps(more: str) -> int:
        return scenario(tmp_path, FAT_TREE + RING + more).longest_round_ps

    assert longest_ps("") == 10**7 << 13
    for more in (
        '[wormhole]\nmode = "exact"\n', '[network.buffer]\nsize = "10MB"\n', "[network.loss]\nprobability = 0.01\n",
        '[network.routing]\npolicy = "flowlet"\n', '[output]\nsample_interval = "20us"\n',
    ):  # fmt: skip
        assert longest_ps(more) == 0, more


def test_auto_resolves_to_a_threshold_and_the_plan_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = scenario(tmp_path, FAT_TREE + RING)
    assert built.threshold_ps in (500_000, 10**6) and built.n_lp > 1
    print_plan(built)
    assert "auto, " in capsys.readouterr().out


def test_expected_packet_hops_count_data_and_acks_on_every_link(tmp_path: Path) -> None:
    """1 MB in two chunks of 500 packets: each of the two GPUs sends one, over 2 links of the same edge switch."""
    built = scenario(tmp_path, FAT_TREE + RING)
    assert built.port_hops.sum() == 2 * 500 * 2 * 2
    assert np.array_equal(np.sort(built.port_hops)[-4:], [1000] * 4)
