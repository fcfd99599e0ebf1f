"""Measured collectives as cases: what a row becomes, which rows count as predicted, and configs that load."""

from pathlib import Path

import pytest
from nccl import config_text, measured_us, summary
from nccl_cases import read_cases

from pdes.config import CollectivesConfig, load_config

HEAD = (
    "dataset,collective,gpu,nodes,gpus_per_node,ranks,inter_node,algo,size_bytes,time_us,algbw_GBps,busbw_GBps,source\n"
)
ROWS = """\
H100-8,all_reduce,H100 SXM NVLink4,1,8,8,-,default,1048576,27.37,38.31,67.04,x
H200-n,all_reduce,H200,1,5,5,-,Ring (NVLS off),8589934592,37716.5,227.75,364.4,x
B200-4x8,all_reduce,B200 NVLink5,4,8,32,8x400G EFAv4,default,1048576,378.5,2.77,5.37,x
NVIDIA-GTC24-S62129,all_reduce,DGX H100 8x400G,>1,8,,IB,peak,large,,,380,x
NVIDIA-GTC24-S62129,all_reduce,DGX H100 8x400G SHARP,>1,8,,IB,peak,large,,,480,x
A100-4x8-older,all_reduce,A100,4,8,32,unstated,default,1024,68.3,0.48,0.9,x
A100-sendrecv,sendrecv,A100 SXM,1,8,8,-,P2P,134217728,1211.2,110.81,110.81,x
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(HEAD + ROWS)
    return path


def test_rows_become_cases_or_are_left_out_with_a_reason(rows):
    cases, left_out = read_cases(rows)
    assert [case.dataset for case in cases] == [line.split(",")[0] for line in ROWS.splitlines() if "older" not in line]
    assert set(left_out) == {"A100-4x8-older"}
    assert [case.is_fitted for case in cases] == [True, False, True, False, False, False]
    assert [(c.cluster.gpu, c.cluster.n_server, c.cluster.per_server) for c in cases] == [
        ("h100", 1, 8), ("h200", 1, 5), ("b200", 4, 8), ("h100", 4, 8), ("h100", 4, 8), ("a100", 1, 2)
    ]  # fmt: skip


def test_a_row_without_a_time_has_that_of_its_bus_bandwidth(rows):
    peak = read_cases(rows)[0][3]
    assert measured_us(peak) == pytest.approx(2**34 * 2 * 31 / 32 / 380e9 * 1e6)


def test_every_cluster_is_a_config(rows, tmp_path):
    for case in read_cases(rows)[0]:
        path = tmp_path / "config.toml"
        path.write_text(config_text(case.cluster, [(case.operation, case.size_bytes)] * 2))
        workload = load_config(path).workload
        assert isinstance(workload, CollectivesConfig)
        assert [c.size_bytes for c in workload.collective] == [case.size_bytes] * 2
        assert workload.collective[1].after == ["c0"]


def test_the_summary_counts_rows_from_a_megabyte_up(rows):
    cases = read_cases(rows)[0]
    found = summary(
        [(case, measured_us(case) * factor) for case, factor in zip(cases, (1, 1.05, 0.8, 1, 1, 1), strict=True)]
    )
    assert found["all"] == {"rows": 6, "mean_error": 0.0417, "max_error": 0.2, "within_10_percent": 5}
    assert found["predicted"]["rows"] == 4 and found["beyond_10_percent"] == ["B200-4x8 1048576"]
