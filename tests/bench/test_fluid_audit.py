"""The table of what the audit of flow level says: its figures of a job that is simulated in full all the same."""

from pathlib import Path

import fluid_audit
import pytest

from mpi.test_fluid_on_ranks import FLOWS, SHARED
from runs import simulate_once


@pytest.mark.slow  # tests/pdes/skipping has what is drawn and compared, in small
def test_a_run_with_all_of_it_drawn_is_off_by_nothing(tmp_path: Path, capsys) -> None:
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "config.toml").write_text(SHARED.format(seed=1, audit=0))
    full, drawn, fast = (
        simulate_once(tmp_path / "config.toml", keys, tmp_path)
        for keys in (['wormhole.mode="off"'], ["wormhole.audit=1"], [])
    )
    f, none = fluid_audit.figures(full, drawn), fluid_audit.figures(full, fast)
    assert f["mean_fct_error"] == f["max_fct_error"] == 0.0 and f["said"]["flows"] > 2
    assert f["packet_hops"] == full.result["packet_hops"] > none["packet_hops"]
    assert none["mean_fct_error"] > 0 and "said" not in none
    fluid_audit.show("dctcp", "1", "1", f)
    fluid_audit.show("dctcp", "0", "1", none)
    assert len({len(line) for line in capsys.readouterr().out.splitlines()}) == 1
