"""One node of a Chakra execution trace (schema 0.0.4), from protobuf or from JSON, before anything is made of it."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.workload.importers.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, broken, fields, numbers
from models.workload.importers.wire import read_messages as messages_of
from pdes.errors import ConfigError
from pdes.units import shown, whole_number

INVALID, METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL = range(8)
TYPE_NAMES = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
    "COMM_RECV_NODE", "COMM_COLL_NODE",
)  # fmt: skip
WANTED = frozenset(
    "is_cpu_op num_ops tensor_size comm_type comm_size comm_src comm_dst comm_tag pg_name root_rank root".split()
)
OWN = "pdes_"  # attributes of ours, see `chakra_export`
_ZIGZAG = (15, 19)  # sint32_val, sint64_val
_DOUBLE, _FLOAT, _STRING = 3, 5, 29
_INT32, _INT64 = (7,), (9,)

Value = int | float | str | bool


@dataclass
class ChakraNode:
    """Fields as they stand in the file; attributes only where a reader wants them."""

    node_id: int = 0
    name: str = ""
    kind: int = INVALID
    after: list[int] = field(default_factory=list)  # control and data dependencies
    duration_us: int = 0
    attributes: dict[str, Value] = field(default_factory=dict)

    def number(self, name: str, default: int | None = None) -> int | None:
        """An attribute as a whole number, whatever its type in the file."""
        value = self.attributes.get(name, default)
        return value if value is None else int(value)


def read_nodes(path: Path) -> Iterator[ChakraNode]:
    """The nodes of a `.et` file, its metadata message passed over. ConfigError names the byte where it breaks off."""
    for i_message, (data, begin, end) in enumerate(messages_of(path)):
        try:
            if i_message > 0:
                yield _node(data, begin, end)
            else:
                for _ in fields(data, begin, end):  # GlobalMetadata: versions differ, and may be empty
                    pass
        except WireError as error:
            raise broken(path, i_message, error) from error


def read_metadata(path: Path) -> dict[str, Value]:
    """Attributes of ours in a `.et` file's first message."""
    found: dict[str, Value] = {}
    for data, begin, end in messages_of(path):
        try:
            for number, _, value, behind in fields(data, begin, end):
                if number == 2:
                    _attribute(data, value, behind, found)
        except WireError as error:
            raise broken(path, 0, error) from error
        break
    return found


def _node(data: bytes, begin: int, end: int) -> ChakraNode:
    node = ChakraNode()
    for number, wire, value, behind in fields(data, begin, end):
        if number == 1:
            node.node_id = value
        elif number == 2:
            node.name = data[value:behind].decode(errors="replace")
        elif number == 3:
            node.kind = value
        elif number in (4, 5):
            node.after += numbers(data, wire, value, behind)
        elif number == 7:
            node.duration_us = value
        elif number == 10:
            _attribute(data, value, behind, node.attributes)
    return node


def _attribute(data: bytes, begin: int, end: int, found: dict[str, Value]) -> None:
    """Add a wanted attribute; its value may be any member of the oneof. Lists stay out."""
    name = ""
    for number, wire, value, behind in fields(data, begin, end):
        if number == 1:
            name = data[value:behind].decode(errors="replace")
            if name not in WANTED and not name.startswith(OWN):
                return
        elif number > 2:
            read = _value(data, number, wire, value, behind)
            if read is not None:
                found[name] = read


def _value(data: bytes, number: int, wire: int, value: int, behind: int) -> Value | None:
    if wire == VARINT:
        if number in _ZIGZAG:
            return value >> 1 ^ -(value & 1)
        is_signed = number in (*_INT32, *_INT64)
        return value - 2**64 if is_signed and value >= 2**63 else value
    if wire == BYTES:
        return data[value:behind].decode(errors="replace") if number == _STRING else None
    code = {(FIXED64, _DOUBLE): "<d", (FIXED32, _FLOAT): "<f", (FIXED64, 23): "<Q", (FIXED64, 25): "<q"}.get(
        (wire, number), "<i" if wire == FIXED32 else "<q"
    )
    return struct.unpack_from(code, data, value)[0]


def node_from_json(entry: Any, where: str) -> ChakraNode:
    """A node as JSON: protobuf's own form ("dataDeps", numbers in quotes), or Chakra's older one ("Id", "NodeType")."""
    if not isinstance(entry, dict):
        raise ConfigError(where, f"found {shown(entry)}", "a node, {...}")
    lower = {key.replace("_", "").lower(): value for key, value in entry.items()}
    kind = lower.get("type", lower.get("nodetype", 0))
    if isinstance(kind, str) and kind in TYPE_NAMES:
        kind = TYPE_NAMES.index(kind)
    attributes = {
        key.lower(): value for key, value in entry.items() if key.lower() in WANTED or key.lower().startswith(OWN)
    }
    listed = lower.get("attr", ())
    if not isinstance(listed, list | tuple) or not all(isinstance(attribute, dict) for attribute in listed):
        raise ConfigError(where, f"attr {shown(listed)}", 'a list of {"name": ..., "...Val": ...}')
    for attribute in listed:
        name = str(attribute.get("name", ""))
        if name in WANTED or name.startswith(OWN):
            value = next((v for key, v in attribute.items() if key not in ("name", "docString")), None)
            attributes[name] = value
    try:
        return ChakraNode(
            node_id=int(lower.get("id", 0)),
            name=str(lower.get("name", "")),
            kind=int(kind),
            after=[int(i) for key in ("ctrldeps", "datadeps") for i in lower.get(key, ())],
            duration_us=int(lower.get("durationmicros", lower.get("runtime", 0))),
            attributes={name: _plain(value) for name, value in attributes.items() if not isinstance(value, dict)},
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(where, f"a node with a wrong value ({error})", "numbers, as Chakra writes them") from error


def _plain(value: Any) -> Value:
    """A value of protobuf's JSON, where 64-bit numbers stand in quotes."""
    if isinstance(value, str) and value.lstrip("-").isdecimal():
        return whole_number(value)
    return value
