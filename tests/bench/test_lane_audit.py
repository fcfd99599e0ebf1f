"""The table of what the audit of lanes says: its figures of a job that is simulated in full all the same."""

from pathlib import Path

import lane_audit
import pytest

from mpi.test_lanes_on_ranks import FLOWS, SHARED
from runs import simulate_once


@pytest.mark.slow  # tests/pdes/skipping/test_lane_audit.py has what is drawn and compared, in small
def test_a_run_with_all_of_it_drawn_is_off_by_nothing(tmp_path: Path, capsys) -> None:
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "config.toml").write_text(SHARED.format(seed=1, audit=0))
    full, drawn, lanes = (
        simulate_once(tmp_path / "config.toml", keys, tmp_path)
        for keys in (['wormhole.mode="off"'], ["wormhole.audit=1"], [])
    )
    f, none = lane_audit.figures(full, drawn), lane_audit.figures(full, lanes)
    assert f["mean_fct_error"] == f["max_fct_error"] == 0.0 and f["groups"]["flows"] > 2
    assert f["packet_hops"] == full.result["packet_hops"] > none["packet_hops"]
    assert none["mean_fct_error"] > 0 and "groups" not in none
    lane_audit.show("dctcp", "1", "1", f)
    lane_audit.show("dctcp", "0", "1", none)
    assert len({len(line) for line in capsys.readouterr().out.splitlines()}) == 1
