"""Claims about quantities: parsing is exact or refused, and exact text reads back as the same number."""

import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes import units
from pdes.units import QuantityError, parse_duration_ps, parse_flops, parse_rate_bps, parse_size_bytes

ANY_INT64 = st.integers(0, units.MAX_INT64)


@pytest.mark.parametrize(
    ("text", "value_ps"),
    [("0s", 0), ("1ps", 1), ("1.5us", 1_500_000), ("25ns", 25_000), ("0.001ms", 10**6), ("2.000000001s", 2000000001000)]
    + [("1min", 60 * 10**12), ("1h", 3600 * 10**12), (" 10 ms ", 10**10), ("1e-3s", 10**9), ("3\u00b5s", 3 * 10**6)]
    + [("1_000ns", 10**6), (".5ns", 500), ("5.ns", 5000)],
)
def test_durations_become_picoseconds(text: str, value_ps: int) -> None:
    assert parse_duration_ps(text) == value_ps


@pytest.mark.parametrize(
    ("text", "value_bytes"),
    [
        ("1000B", 1000),
        ("4MB", 4 * 10**6),
        ("4MiB", 4 * 2**20),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1.5KiB", 1536),
        ("2GB", 2 * 10**9),
    ],
)
def test_sizes_become_bytes(text: str, value_bytes: int) -> None:
    assert parse_size_bytes(text) == value_bytes


@pytest.mark.parametrize(
    ("text", "value_bps"),
    [("100Gbps", 10**11), ("3.6Tbps", 36 * 10**11), ("615Mb/s", 615 * 10**6), ("230GBps", 1840 * 10**9), ("1bps", 1)]
    + [("12.5GB/s", 10**11), ("1kbps", 1000)],
)
def test_rates_become_bits_per_second_and_a_capital_b_means_bytes(text: str, value_bps: int) -> None:
    assert parse_rate_bps(text) == value_bps


@pytest.mark.parametrize("text", ["312Tflops", "312TFLOPS", "312 Tflop/s", "0.312Pflops"])
def test_compute_rates_accept_every_usual_spelling(text: str) -> None:
    assert parse_flops(text) == 312 * 10**12


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10Gbps", 'the unit "Gbps"'),
        ("10", "has no unit"),
        ("us", "not a number and a unit"),
        ("", "not a number and a unit"),
        ("1.2.3us", "not a number and a unit"),
        ("\u0661us", "not a number and a unit"),
        ("-1us", "below zero"),
        ("0.5ps", "not a whole number of picoseconds"),
        ("107 h", None),
        ("10000h", "above the largest value"),
        ("1e99s", "above the largest value"),
        (5, "5, which is not text"),
        (True, "true, which is not text"),
        (None, "not text"),
    ],
)
def test_what_is_no_duration_is_named_with_what_is_accepted(text: object, found: str | None) -> None:
    if found is None:
        assert parse_duration_ps(text) == 107 * 3600 * 10**12
        return
    with pytest.raises(QuantityError, match="Accepted: a duration with its unit") as caught:
        parse_duration_ps(text)
    assert found in caught.value.found


def test_a_quantity_error_survives_pickling() -> None:
    with pytest.raises(QuantityError) as caught:
        parse_size_bytes("4Mb")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@given(ANY_INT64)
def test_exact_text_reads_back_as_the_same_number(value: int) -> None:
    assert parse_duration_ps(units.exact_duration(value)) == value
    assert parse_size_bytes(units.exact_size(value)) == value
    assert parse_rate_bps(units.exact_rate(value)) == value


@given(st.decimals(0, 10**6, allow_nan=False, places=6), st.sampled_from(sorted(units.DURATION_UNITS)))
def test_parsing_is_exact_or_refuses(number: object, unit: str) -> None:
    exact = Fraction(str(number)) * units.DURATION_UNITS[unit]
    text = f"{number}{unit}"
    if exact.denominator == 1 and exact <= units.MAX_INT64:
        assert parse_duration_ps(text) == exact
    else:
        with pytest.raises(QuantityError):
            parse_duration_ps(text)


@given(ANY_INT64)
def test_text_for_people_is_within_its_last_digit(value: int) -> None:
    number, _, unit = units.format_size(value).partition(" ")
    factor = units.SIZE_UNITS[unit]
    n_decimal = len(number.partition(".")[2])
    assert abs(Fraction(number) * factor - value) <= Fraction(factor, 10 ** max(n_decimal, 0)) * 5


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (units.format_duration(0), "0 ps"),
        (units.format_duration(12_400_000_000), "12.4 ms"),
        (units.format_duration(999_999), "1 us"),
        (units.format_duration(1_234_567, 4), "1.235 us"),
        (units.format_duration(7_384 * 10**12), "2 h 03 min"),
        (units.format_duration(1_430 * 10**12), "23 min"),
        (units.format_size(1_000), "1 kB"),
        (units.format_size(4_194_304), "4.19 MB"),
        (units.format_rate(10**11), "100 Gbps"),
        (units.format_rate(3_600 * 10**9), "3.6 Tbps"),
        (units.format_count(31_234_567), "31.2 M"),
        (units.format_count(999), "999"),
        (units.format_count(0), "0"),
    ],
)
def test_people_see_three_digits_and_a_fitting_unit(shown: str, text: str) -> None:
    assert shown == text


def test_the_largest_packet_still_fits_in_an_int64() -> None:
    bits_ps = units.BITS_PER_BYTE * units.PS_PER_S
    assert units.MAX_PACKET_BYTES * bits_ps <= units.MAX_INT64 < (units.MAX_PACKET_BYTES + 1) * bits_ps
