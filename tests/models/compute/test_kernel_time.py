"""Times of kernels: the formula, bounds of unfitted GPUs, measured tables."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.compute.devices import DEVICES, Device, Fit, peaks_of
from models.compute.kernel_table import read_kernel_table
from models.compute.kernel_time import kernel_ps
from models.compute.operators import Kernel, elementwise, gemm
from pdes.errors import ConfigError

ROUND = Device("round", peaks_of(100, 200), 10**12, 10**10, 10**12, Fit(2.0, 3.0, 4.0, 1.5, 10**6, 0, 0.0, ("a row",)))
PRODUCT = gemm(1000, 1000, 1000, "bf16", 2, 2)  # 2e9 FLOPs, 6e6 bytes


def test_a_product_takes_gamma_times_its_flops_and_its_bytes_and_a_launch() -> None:
    # 2 * 2e9 / 100e12 = 40 us, 1.5 * 6e6 / 1e12 = 9 us, 1 us
    assert kernel_ps(PRODUCT, ROUND) == pytest.approx(50_000_000, abs=2)


def test_fp8_and_attention_have_their_own_gamma() -> None:
    # 3 * 2e9 / 200e12 = 30 us; bytes are given, not derived
    assert kernel_ps(replace(PRODUCT, dtype="fp8"), ROUND) == pytest.approx(40_000_000, abs=2)
    assert kernel_ps(replace(PRODUCT, kind="attention"), ROUND) == pytest.approx(90_000_000, abs=2)


def test_elementwise_kernels_take_their_bytes() -> None:
    assert kernel_ps(elementwise(10**6, 4, 3), ROUND) == pytest.approx(6_000_000 + 3_000_000, abs=2)


@given(
    m=st.integers(1, 10**5), n=st.integers(1, 10**5), k=st.integers(1, 10**5),
    name=st.sampled_from(sorted(DEVICES)), dtype=st.sampled_from(["bf16", "fp16", "fp8", "fp32"]),
)  # fmt: skip
def test_no_kernel_is_faster_than_the_data_sheet(m: int, n: int, k: int, name: str, dtype: str) -> None:
    kernel, device = gemm(m, n, k, dtype, 2, 2), DEVICES[name]
    least_s = max(kernel.flops / device.peak(dtype), kernel.hbm_bytes / device.hbm_bytes_per_s)
    assert kernel_ps(kernel, device) >= least_s * 1e12


@pytest.mark.parametrize(
    "name", ["h200", "h800", "h20", "gh200", "gb200", "b300", "gb300", "a800", "mi300x", "mi325x", "a100-40g"]
)
@pytest.mark.parametrize("kernel", [PRODUCT, elementwise(10**8, 4), replace(PRODUCT, kind="attention")])
def test_an_unfitted_gpu_is_faster_than_its_reference_by_its_peaks_at_most(name: str, kernel: Kernel) -> None:
    device = DEVICES[name]
    assert device.reference is not None and device.reference.fit.rows and not device.fit.rows
    by_flops = device.reference.peak("bf16") / device.peak("bf16")
    by_bytes = device.reference.hbm_bytes_per_s / device.hbm_bytes_per_s
    ratio = by_bytes if kernel.kind == "elementwise" else by_flops
    assert kernel_ps(kernel, device) >= int(kernel_ps(kernel, device.reference) * ratio) - 1


def test_a_margin_makes_an_unfitted_gpu_slower() -> None:
    boast = Fit(1.0, 1.0, 1.0, 1.0, 0, 0)
    optimist = Device("mine", peaks_of(10**4), 10**14, 10**12, 10**13, boast, reference=DEVICES["h100"])
    cautious = replace(optimist, margin=1.5)
    assert kernel_ps(PRODUCT, cautious) == pytest.approx(1.5 * kernel_ps(PRODUCT, optimist), rel=1e-6)


def test_a_fitted_gpu_has_no_bound() -> None:
    free, bound = (replace(ROUND, reference=reference) for reference in (None, DEVICES["a100-80g"]))
    assert kernel_ps(PRODUCT, free) == kernel_ps(PRODUCT, bound)


def test_constants_are_few_and_fitted_on_listed_rows() -> None:
    fitted = [device for device in DEVICES.values() if device.fit.rows]
    assert {device.name for device in fitted} >= {"a100-80g", "h100", "b200"}
    for device in fitted:
        changed = [name for name, value in vars(device.fit).items() if name != "rows" and value != getattr(Fit(), name)]
        assert len(changed) <= 6, device.name
        assert len(set(device.fit.rows)) == len(device.fit.rows)


TABLE = "kind,dtype,count,m,n,k,bytes,time_us\ngemm,bf16,1,1000,1000,1000,,7.5\nelementwise,,,,,,4000000,3\n"


def test_a_measured_time_takes_the_place_of_the_formula(tmp_path: Path) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(TABLE)
    device = replace(ROUND, table=read_kernel_table(path))
    assert kernel_ps(PRODUCT, device) == 7_500_000
    assert kernel_ps(elementwise(10**6, 4), device) == 3_000_000
    other = gemm(1000, 1000, 1001, "bf16", 2, 2)
    assert kernel_ps(other, device) == kernel_ps(other, ROUND)


@pytest.mark.parametrize(
    "line, message",
    [
        ("gem,bf16,1,1,1,1,,1", r": line 2: kind 'gem'"),
        ("gemm,bf16,1,1,1,1,,", r": line 2: no time_us"),
        ("gemm,bf16,1,x,1,1,,1", r": line 2: invalid literal"),
        ("gemm,bf16,1,1,1,1,,-1", r": line 2: time_us -1"),
        ("gemm,bf16,1,1,1,1,,inf", r": line 2: time_us inf"),
        ("gemm,bf16,1,1,1,1,,nan", r": line 2: time_us nan"),
        ("gemm,bf17,1,1,1,1,,1", r": line 2: dtype 'bf17'"),
        ("gemm,bf16,1,1,1,,,1", r": line 2: gemm of 1 x 0 by 0 x 1"),
        ("norm,,,,,,,1", r": line 2: norm without bytes"),
        ("gemm,bf16,1,1,1,1,,1,7", r": line 2: more values than columns"),
        ("gemm,,1,1,1,1,,1\ngemm,bf16,1,1,1,1,,2", r": line 3: a kernel that is there already"),
        ("", r"no kernel"),
        ('gemm,bf16,1,1,1,1,,"1', r"is not CSV: unexpected end of data"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(TABLE.splitlines()[0] + "\n" + line + "\n")
    with pytest.raises(ConfigError, match=message):
        read_kernel_table(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [("kind,dtype", "line 1: no column time_us"), ("kind,time_us,width", "line 1: columns kind, time_us, width")],
)
def test_a_wrong_header_is_named(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(f"{header}\nnorm,1,1\n")
    with pytest.raises(ConfigError, match=message):
        read_kernel_table(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_kernel_table(tmp_path / "none.csv")
