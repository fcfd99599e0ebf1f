"""What NCCL's ranges say: payloads of NVTX as JSON, or as bytes by a schema that the recording has."""

import json
import struct
from collections.abc import Iterable
from typing import NamedTuple

SIZE, COMMUNICATOR = "Message size [bytes]", "NCCL communicator ID"
N_RANK, RANK, PEER, ROOT = "No. of ranks", "Rank", "Peer rank", "Root"
FIELDS = (SIZE, COMMUNICATOR, N_RANK, RANK, PEER, ROOT)
HEAD = struct.Struct("<IIIIQQ")  # domain, -, schema, -, bytes of the payload, bytes with this head
WIDTH_OF_TYPE = {5: "<I", 6: "<i", 17: "<q", 18: "<Q", 22: "<Q"}  # numbers of NVTX: 32 and 64 bits, size_t
MOST_CHARACTERS = 10**4


class Entry(NamedTuple):
    """A field of a schema."""

    name: str
    offset: int
    form: str


def schemas_of(rows: Iterable[tuple]) -> dict[int, list[Entry]]:
    """Fields that we know by schema. rows: schema, name, type, offset of each entry."""
    found: dict[int, list[Entry]] = {}
    for schema, name, kind, offset in rows:
        form = WIDTH_OF_TYPE.get(kind) if type(kind) is int else None
        if type(schema) is int and name in FIELDS and form and type(offset or 0) is int and 0 <= (offset or 0) < 2**16:
            found.setdefault(schema, []).append(Entry(str(name), offset or 0, form))
    return found


def payload_of(text: object, content: object, schemas: dict[int, list[Entry]]) -> dict[str, int]:
    """The whole numbers that a range says by their names; of bytes that fit no schema nothing."""
    if isinstance(text, str) and 0 < len(text) < MOST_CHARACTERS:
        return _of_json(text)
    if not isinstance(content, bytes) or len(content) < HEAD.size:
        return {}
    found = {}
    for entry in schemas.get(HEAD.unpack_from(content)[2], []):
        end = HEAD.size + entry.offset + struct.calcsize(entry.form)
        if end <= len(content):
            found[entry.name] = struct.unpack_from(entry.form, content, HEAD.size + entry.offset)[0]
    return found


def _of_json(text: str) -> dict[str, int]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return _numbers(content, 3) if isinstance(content, dict) else {}


def _numbers(content: dict, depth: int) -> dict[str, int]:
    found = {}
    for key, value in content.items():
        if isinstance(value, dict) and depth:
            found |= _numbers(value, depth - 1)
        if isinstance(value, str) and value.isdecimal() and len(value) < 20:
            value = int(value)
        if key in FIELDS and type(value) is int:
            found[key] = value
    return found
