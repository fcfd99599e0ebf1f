"""The figure of README.md, docs/overview.svg: speed, error and ranks, of the figures that other benchmarks stored.

    python bench/overview.py [--write]

Speed and ranks are those of bench/speed_table.json, errors those of bench/accuracy_table.json. Without --write the SVG
is printed. It needs nothing but Python, so a test can make it again and compare.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import accuracy_table
import speed_table

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs" / "overview.svg"
WIDTH, HEIGHT, TOP, BOTTOM = 960, 332, 44, 240
COLOURS = ("#0b6e99", "#c8553d", "#5b8c5a", "#7d5ba6")
LEFTS, PANEL_WIDTH = (40, 370, 708), 240
STYLE = (
    "svg{font:12px sans-serif}text{fill:#1c1f24}.t{font-weight:bold}.s{font-size:10px}"
    ".m{text-anchor:middle}.e{text-anchor:end}"
)
ERROR_DECADES, FEWER_DECADES = (-3, 1), (0, 4)
"""Exponents of 10 at the ends of the axes: percent, times fewer."""
KINDS = {
    "Dense models": "dense",
    "Mixtures of experts, without estimates": "experts, no estimates",
    "Mixtures of experts, with waves": "experts, waves",
    "Mixtures of experts, at flow level": "experts, flow level",
}


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{text}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = "#d9dce1") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _bars(left: float, bars: list[tuple[str, float, str]], top_value: float, ticks: list[float]) -> list[str]:
    """Bars (label, value, colour) with their values above them; an empty label: the bar belongs to the one before."""
    parts = []
    for tick in ticks:
        y = BOTTOM - (BOTTOM - TOP) * tick / top_value
        parts += [_line(left, y, left + PANEL_WIDTH, y), _text(left - 6, y + 4, f"{tick:g}", "e")]
    slot = PANEL_WIDTH / len(bars)
    for i, (label, value, colour) in enumerate(bars):
        height, x = (BOTTOM - TOP) * value / top_value, left + slot * i
        parts.append(
            f'<rect x="{x + slot * 0.1:.1f}" y="{BOTTOM - height:.1f}" width="{slot * 0.8:.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>'
        )
        parts.append(_text(x + slot / 2, BOTTOM - height - 4, f"{value:.1f}", "m s"))
        if label:
            parts.append(_text(x + slot / 2, BOTTOM + 16, label, "m s"))
    return parts


def speed(kept: dict[str, Any]) -> list[str]:
    """Packet-hops per second of one core, by congestion control."""
    rates = kept["figures"]["congestion_speed"]["packet_hops_per_second"]
    bars = [(text, rates[law] / 1e6, COLOURS[0]) for law, text in speed_table.LAWS.items()]
    return [
        _text(LEFTS[0], 20, "Speed: M packet-hops/s, one core", "t"),
        *_bars(LEFTS[0], bars, 45, [0, 10, 20, 30, 40]),
    ]


def ranks(kept: dict[str, Any]) -> list[str]:
    """Seconds of an iteration, packet by packet, on one and on two ranks, with HPCC."""
    jobs = [case for case in kept["figures"]["training"]["cases"] if case["law"] == "hpcc"]
    bars = []
    for case in jobs:
        bars += [("", case["seconds"][0], COLOURS[3]), ("", case["seconds"][-1], COLOURS[2])]
    parts = [
        _text(LEFTS[2], 20, "Ranks: seconds of an iteration, HPCC", "t"),
        *_bars(LEFTS[2], bars, 110, [0, 50, 100]),
    ]
    for i, case in enumerate(jobs):
        name = speed_table.JOBS[case["case"]].partition(",")[0]
        parts.append(_text(LEFTS[2] + PANEL_WIDTH * (i + 0.5) / len(jobs), BOTTOM + 16, name, "m"))
    for i, (text, colour) in enumerate((("1 rank", COLOURS[3]), ("2 ranks", COLOURS[2]))):
        parts += _legend(LEFTS[2] + 8, TOP + 8 + 16 * i, text, colour)
    return parts


def error(found: list[accuracy_table.Case]) -> list[str]:
    """Mean error of completion times over how many times fewer packet-hops are simulated, both logarithmic."""
    left, (low, high), (least, most) = LEFTS[1], ERROR_DECADES, FEWER_DECADES
    parts = [_text(left, 20, "Error: mean FCT error, by what is skipped", "t")]
    for decade in range(low, high + 1):
        y = BOTTOM - (BOTTOM - TOP) * (decade - low) / (high - low)
        name = "0" if decade == low else f"{10.0**decade:g} %"
        parts += [_line(left, y, left + PANEL_WIDTH, y), _text(left - 6, y + 4, name, "e")]
    for decade in range(least, most + 1):
        x = left + PANEL_WIDTH * (decade - least) / (most - least)
        parts += [_line(x, TOP, x, BOTTOM), _text(x, BOTTOM + 16, f"{10**decade:,}", "m")]
    parts.append(_text(left + PANEL_WIDTH / 2, BOTTOM + 32, "times fewer packet-hops", "m"))
    for case in found:
        fewer, percent = (float(case[name].replace(",", "").strip(" %")) for name in ("times_fewer", "mean_fct_error"))
        x = left + PANEL_WIDTH * (math.log10(fewer) - least) / (most - least)
        share = (math.log10(percent) - low) / (high - low) if percent else 0
        colour = COLOURS[list(KINDS).index(accuracy_table.kind_of(case))]
        y = BOTTOM - (BOTTOM - TOP) * share
        shape = f'fill="{colour}"' if case["control"] != "HPCC" else f'fill="none" stroke="{colour}" stroke-width="2"'
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {shape}/>')
    for i, (text, colour) in enumerate(zip(KINDS.values(), COLOURS, strict=True)):
        parts += _legend(left - 30 + 150 * (i % 2), BOTTOM + 44 + 16 * (i // 2), text, colour)
    parts.append(_text(left - 30, BOTTOM + 85, "open circles: HPCC, whose all-to-alls are chaotic", "s"))
    return parts


def _legend(x: float, y: float, text: str, colour: str) -> list[str]:
    return [f'<rect x="{x:.1f}" y="{y:.1f}" width="9" height="9" fill="{colour}"/>', _text(x + 14, y + 9, text)]


def figure(kept: dict[str, Any], found: list[accuracy_table.Case]) -> str:
    """The SVG, of what speed_table and accuracy_table stored."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *speed(kept),
        *error(found),
        *ranks(kept),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into docs/overview.svg")
    drawn = figure(json.loads(speed_table.KEPT.read_text()), accuracy_table.cases())
    if parser.parse_args().write:
        FIGURE.write_text(drawn)
    else:
        print(drawn, end="")


if __name__ == "__main__":
    main()
