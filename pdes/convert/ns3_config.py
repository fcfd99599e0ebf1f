"""An ns-3 (HPCC) config.txt: its lines, the keys that exist, and what this version does not model of them."""

from pathlib import Path
from typing import NamedTuple

from pdes.errors import ConfigError
from pdes.units import shown

CONGESTION_CONTROLS = {"1": "dcqcn", "3": "hpcc", "7": "timely", "8": "dctcp", "10": "hpcc-pint"}
AVAILABLE_CC_MODE = "8"

USED_KEYS = frozenset(
    "CC_MODE PACKET_PAYLOAD_SIZE SIMULATOR_STOP_TIME EWMA_GAIN MIN_RATE DCTCP_RATE_AI HAS_WIN GLOBAL_T VAR_WIN "
    "KMIN_MAP KMAX_MAP PMAX_MAP BUFFER_SIZE X_QBB_ENABLED X_STOP_S".split()
)
ONE_VALUE_KEYS = {  # what this version does, whatever the file says
    "ACK_HIGH_PRIO": ("1",),
    "ENABLE_QCN": ("1",),
    "ERROR_RATE_PER_LINK": ("0",),
    "L2_ACK_INTERVAL": ("1",),
    "LINK_DOWN": ("0", "0", "0"),
    "RATE_BOUND": ("1",),
    "VAR_WIN": ("1",),
}
OTHER_KEYS = frozenset(  # outputs, parameters of other controls, and what only matters where packets are lost or paused
    "USE_DYNAMIC_PFC_THRESHOLD TOPOLOGY_FILE FLOW_FILE TRACE_FILE TRACE_OUTPUT_FILE FCT_OUTPUT_FILE PFC_OUTPUT_FILE "
    "ALPHA_RESUME_INTERVAL RATE_DECREASE_INTERVAL CLAMP_TARGET_RATE RP_TIMER FAST_RECOVERY_TIMES RATE_AI RATE_HAI "
    "L2_CHUNK_SIZE L2_BACK_TO_ZERO FAST_REACT U_TARGET MI_THRESH INT_MULTI MULTI_RATE SAMPLE_FEEDBACK PINT_LOG_BASE "
    "PINT_PROB ENABLE_TRACE QLEN_MON_FILE QLEN_MON_START QLEN_MON_END PAUSE_TIME".split()
)


class Entry(NamedTuple):
    """One line. where: file, line and key, for messages; words: the values."""

    where: str
    words: tuple[str, ...]


def read_entries(path: Path) -> dict[str, Entry]:
    """The lines of a config.txt by key, the last of a key counting; what stands in {braces} is a comment.

    ConfigError: the file cannot be read, or a key has no value.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        accepted = "Accepted: an ns-3 config.txt, lines of KEY value"
        raise ConfigError(str(path), f"cannot be read: {getattr(error, 'strerror', error)}", accepted) from error
    entries = {}
    for i_line, line in enumerate(lines, start=1):
        words = line.partition("{")[0].split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 2:
            raise ConfigError(f"{path}: line {i_line}", f"{shown(words[0])} has no value", "Accepted: KEY value")
        entries[words[0]] = Entry(f"{path}: line {i_line}: {words[0]}", tuple(words[1:]))
    return entries


def check_congestion_control(path: Path, entries: dict[str, Entry]) -> None:
    """Raise ConfigError unless this version has the file's congestion control."""
    accepted = f"Accepted: CC_MODE {AVAILABLE_CC_MODE} ({CONGESTION_CONTROLS[AVAILABLE_CC_MODE]})"
    if "CC_MODE" not in entries:
        raise ConfigError(str(path), "CC_MODE is missing", accepted)
    where, (mode, *_) = entries["CC_MODE"]
    if mode != AVAILABLE_CC_MODE:
        name = CONGESTION_CONTROLS.get(mode, "unknown")
        raise ConfigError(where, f"{mode} ({name}) is not available in this version", accepted)


def unmodelled(entries: dict[str, Entry]) -> list[str]:
    """Warnings: unknown keys, values that this version replaces by its own, and what it leaves out."""
    warnings = []
    for key, (where, words) in entries.items():
        text = " ".join(words)
        if key not in USED_KEYS | OTHER_KEYS | ONE_VALUE_KEYS.keys():
            warnings.append(f"{where}: unknown key, ignored")
        elif key in ONE_VALUE_KEYS and not _same(words, ONE_VALUE_KEYS[key]):
            warnings.append(f"{where}: {text} is not modelled in this version, {' '.join(ONE_VALUE_KEYS[key])} is used")
    left_out = [f"{key} {' '.join(entries[key].words)}" for key in ("BUFFER_SIZE", "X_QBB_ENABLED") if key in entries]
    if left_out:
        warnings.append(
            f"switch buffers are unlimited in this version, without pauses and drops: {', '.join(left_out)}"
        )
    return warnings


def _same(words: tuple[str, ...], expected: tuple[str, ...]) -> bool:
    try:
        return tuple(map(float, words)) == tuple(map(float, expected))
    except ValueError:
        return False
