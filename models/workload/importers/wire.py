"""Protocol Buffers' wire format, as much of it as Chakra's files use: fields of a message, and messages with lengths.

Written here, not taken from the `protobuf` package: its classes want generated code, and they build an object for each
attribute and tensor string of a trace. This passes over what nobody asks for by its length.
"""

from collections.abc import Iterator
from pathlib import Path

from pdes.errors import ConfigError
from pdes.files import read_bytes

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIDTH = {FIXED64: 8, FIXED32: 4}


class WireError(Exception):
    """Bytes that are no message. at: offset of the first that does not fit."""

    def __init__(self, at: int, found: str) -> None:
        super().__init__(found)
        self.at, self.found = at, found


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(value, offset behind it)."""
    value = shift = 0
    begin = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7
        if shift > 63:
            raise WireError(begin, "a number of more than 64 bits")
    raise WireError(begin, "the end inside a number")


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(field number, wire type, value or offset, offset behind) of each field in data[at:end].

    A number of type VARINT comes as its value; of all others the place of their bytes comes.
    """
    while at < end:
        begin = at
        key, at = read_varint(data, at, end)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = read_varint(data, at, end)
            yield number, wire, value, at
            continue
        if wire == BYTES:
            size, at = read_varint(data, at, end)
        elif wire in _WIDTH:
            size = _WIDTH[wire]
        else:
            raise WireError(begin, f"a field of wire type {wire}")
        if at + size > end or number == 0:
            raise WireError(begin, "the end inside a field" if number else "a field with the number 0")
        yield number, wire, at, at + size
        at += size


def numbers(data: bytes, wire: int, value: int, behind: int) -> list[int]:
    """A repeated number: packed, or one of them by itself."""
    if wire == VARINT:
        return [value]
    found, at = [], value
    while at < behind:
        number, at = read_varint(data, at, behind)
        found.append(number)
    return found


def read_messages(path: Path) -> Iterator[tuple[bytes, int, int]]:
    """(data, begin, end) of every message of a file in which the length of each stands before it."""
    try:
        data = read_bytes(path)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a readable file") from error
    at = n_message = 0
    while at < len(data):
        begin = at
        try:
            size, at = read_varint(data, at, len(data))
        except WireError as error:
            raise broken(path, n_message, WireError(begin, error.found)) from error
        if at + size > len(data):
            missing = at + size - len(data)
            raise broken(path, n_message, WireError(begin, f"the end inside a message, {missing} bytes before its end"))
        yield data, at, at + size
        at += size
        n_message += 1


def broken(path: Path, i_message: int, error: WireError) -> ConfigError:
    """What people are told of bytes that are no message."""
    where = f"{path}, byte {error.at}, message {i_message + 1}"
    return ConfigError(where, error.found, "a whole file of messages, each with its length before it")


def varint(value: int) -> bytes:
    """A number as bytes; negative ones as 64-bit two's complement."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """A field with a number."""
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, value: bytes | str) -> bytes:
    """A field with bytes, text or a message."""
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(content)) + content


def packed_field(number: int, values: list[int]) -> bytes:
    """A repeated number, packed."""
    return bytes_field(number, b"".join(map(varint, values)))


def message(content: bytes) -> bytes:
    """A message behind its length."""
    return varint(len(content)) + content
