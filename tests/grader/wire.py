"""How judge and worker talk: a JSON header and raw byte blobs, each with its length in front.

Nothing is ever unpickled, so reading a message never runs code of whoever wrote it. The reader
names the most it is willing to take; a longer or malformed message raises WireError.
"""

from __future__ import annotations

import json
import socket
import struct

HEADER = struct.Struct(">IQ")  # number of blobs, bytes of JSON
LENGTH = struct.Struct(">Q")  # bytes of one blob
MAX_JSON = 32 << 20
MAX_VALUES = 1 << 20  # that JSON holds: each takes far more memory than its bytes
MAX_BLOBS = 64
PIECE = 1 << 20  # bytes for which there is room at once
MAX_BYTES = 1 << 30  # of all blobs of one message


class WireError(Exception):
    """The other side closed the line or did not keep to the format."""


def send(sock: socket.socket, message: dict, blobs: list[bytes] | tuple = ()) -> None:
    """Write one message. `blobs` are bytes-like objects that travel as they are."""
    text = json.dumps(message).encode()
    sock.sendall(HEADER.pack(len(blobs), len(text)) + text)
    for blob in blobs:
        view = memoryview(blob).cast("B")
        sock.sendall(LENGTH.pack(view.nbytes))
        sock.sendall(view)


def receive(sock: socket.socket, max_bytes: int = MAX_BYTES) -> tuple[dict, list[bytearray]]:
    """Read one message: (header, blobs). Raises WireError at end of line or on a broken frame."""
    count, length = HEADER.unpack(_exactly(sock, HEADER.size))
    if count > MAX_BLOBS or length > MAX_JSON:
        raise WireError("what it answers makes no sense (too long)")
    text = bytes(_exactly(sock, length))
    if sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise WireError("what it answers makes no sense (too many values)")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError("what it answers makes no sense (not JSON)") from error
    if not isinstance(message, dict):
        raise WireError("what it answers makes no sense (no object)")
    blobs = []
    for _ in range(count):
        (size,) = LENGTH.unpack(_exactly(sock, LENGTH.size))
        max_bytes -= size
        if max_bytes < 0:
            raise WireError("what it answers makes no sense (too many bytes)")
        blobs.append(_exactly(sock, size))
    return message, blobs


def _exactly(sock: socket.socket, size: int) -> bytearray:
    """So many bytes. Room is made as they come: a mere claim of much takes no memory."""
    data, got = bytearray(min(size, PIECE)), 0
    while got < size:
        if got == len(data):
            data.extend(bytes(min(got, size - got)))
        try:
            with memoryview(data) as view, view[got:] as room:
                step = sock.recv_into(room)
        except TimeoutError:
            raise
        except OSError as error:
            raise WireError("it breaks off the connection to the judge") from error
        if step == 0:
            raise WireError("it breaks off the connection to the judge")
        got += step
    return data
