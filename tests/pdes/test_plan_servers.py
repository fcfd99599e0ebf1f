"""What a plan says of messages between GPUs of one server."""

from pathlib import Path

from pdes.config import load_config
from pdes.plan import in_server_facts
from pdes.scenario import build_scenario

JOB = """
[topology]
kind = "roft"
gpus = 16
gpus_per_server = 8
nvlink = "{nvlink}"
[workload]
kind = "training"
preset = "gpt-7b"
layers = 8
global_batch = {dp}
[workload.parallel]
tp = 2
dp = {dp}
pp = {pp}
[workload.compute]
gpu = "h100"
"""


def facts(folder: Path, dp: int, pp: int, nvlink: str = "none") -> list[tuple[str, str]]:
    config = folder / "job.toml"
    config.write_text(JOB.format(dp=dp, pp=pp, nvlink=nvlink))
    return in_server_facts(build_scenario(load_config(config, [])))


def test_stages_in_one_server_send_by_nics_and_the_plan_says_how_much(tmp_path: Path) -> None:
    """Eight stages of two GPUs, four of them in each server: 24 of 28 pairs are inside servers. Each of the
    two tensor ranks sends half of a microbatch's activations forth, or of their gradients back."""
    (name, text), *others = facts(tmp_path, dp=1, pp=8)
    sequence, hidden, bf16 = 2048, 4096, 2
    total = 24 * sequence * hidden * bf16 // 2
    assert name == "inside servers" and others == []
    assert text == f'{total / 1e6:.0f} MB by NICs, on 24 queue pairs; [topology] nvlink = "packets" has them on NVLink'


def test_where_nothing_goes_by_nics_inside_a_server_nothing_is_said(tmp_path: Path) -> None:
    assert facts(tmp_path, dp=4, pp=2) == []
    assert facts(tmp_path, dp=1, pp=8, nvlink="packets") == []
