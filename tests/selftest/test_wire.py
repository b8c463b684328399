"""Messages between judge and worker survive whatever arrives on the line."""

from __future__ import annotations

import json
import random
import resource
import socket
import struct
import threading

import pytest
from grader import wire
from grader.answers import MOST_TEXT, plain
from grader.wire import HEADER, LENGTH, WireError


@pytest.fixture
def line():
    pair = socket.socketpair()
    for end in pair:
        end.settimeout(5)
    yield pair
    for end in pair:
        end.close()


def arrive(line, data: bytes, **limits):
    """What the reader makes of these bytes and the end of the line."""
    ours, theirs = line

    def write():
        try:
            theirs.sendall(data)
            theirs.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the reader had seen enough

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return wire.receive(ours, **limits)
    finally:
        ours.close()
        writer.join()


def frame(text: bytes, *blobs: bytes) -> bytes:
    parts = [HEADER.pack(len(blobs), len(text)), text]
    for blob in blobs:
        parts += [LENGTH.pack(len(blob)), blob]
    return b"".join(parts)


def test_a_message_comes_back_as_it_was_sent(line):
    ours, theirs = line
    message = {"text": "größer", "numbers": [1, 2.5, None], "deep": {"a": [True]}}
    blobs = [b"", b"\0\1\2" * 1000, memoryview(bytes(7))]
    writer = threading.Thread(target=wire.send, args=(theirs, message, blobs))
    writer.start()
    got, data = wire.receive(ours)
    writer.join()
    assert got == message
    assert data == [bytes(blob) for blob in blobs]


def test_two_messages_in_a_row_do_not_mix(line):
    ours, theirs = line
    wire.send(theirs, {"n": 1}, [b"one"])
    wire.send(theirs, {"n": 2})
    assert wire.receive(ours) == ({"n": 1}, [b"one"])
    assert wire.receive(ours) == ({"n": 2}, [])


@pytest.mark.parametrize("cut", range(0, 38, 3))
def test_a_message_that_breaks_off(line, cut):
    whole = frame(b'{"a": 1}', b"0123456789")
    assert cut < len(whole)
    with pytest.raises(WireError, match="breaks off"):
        arrive(line, whole[:cut])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no json",
        b"[1]",
        b"7",
        b'"text"',
        b"null",
        b'{"a": ',
        b"\xff\xfe",
        b"[" * 100000,
        b'{"a":' * 50000,
        b'{"a":[' + b"[]," * wire.MAX_VALUES + b"1]}",
    ],
)
def test_a_text_that_is_no_json_object(line, text):
    with pytest.raises(WireError, match="makes no sense"):
        arrive(line, frame(text))


def test_sizes_beyond_reason_are_refused_before_they_are_read(line):
    for header in (
        HEADER.pack(wire.MAX_BLOBS + 1, 2),
        HEADER.pack(0, wire.MAX_JSON + 1),
        HEADER.pack(2**32 - 1, 2**64 - 1),
    ):
        pair = socket.socketpair()
        with pytest.raises(WireError, match="too long"):
            arrive(pair, header + b"{}")
    with pytest.raises(WireError, match="too many bytes"):
        arrive(line, HEADER.pack(1, 2) + b"{}" + LENGTH.pack(2**63))


def test_the_limit_is_for_all_blobs_together(line):
    data = frame(b"{}", b"12345", b"12345")
    assert arrive(socket.socketpair(), data, max_bytes=10)[1] == [b"12345", b"12345"]
    with pytest.raises(WireError, match="too many bytes"):
        arrive(line, data, max_bytes=9)


def test_rubbish_and_damaged_messages_give_a_message_or_a_clear_error():
    """Nothing but WireError ever comes out, whatever is changed on the way."""
    dice = random.Random(11)
    good = frame(json.dumps({"result": [1, 2], "x": "y"}).encode(), b"blob", b"")
    outcomes = set()
    for _ in range(400):
        data = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            kind = dice.randrange(4)
            at = dice.randrange(len(data)) if data else 0
            if kind == 0 and data:
                data[at] = dice.randrange(256)
            elif kind == 1:
                del data[at : at + dice.randint(1, 9)]
            elif kind == 2:
                data[at:at] = dice.randbytes(dice.randint(1, 9))
            else:
                data[:12] = struct.pack(">IQ", dice.randrange(70), dice.randrange(60))
        try:
            message, blobs = arrive(socket.socketpair(), bytes(data), max_bytes=1000)
        except WireError as error:
            assert str(error).startswith(("it breaks off", "what it answers makes no sense"))  # noqa: PT017
            outcomes.add("error")
        else:
            assert isinstance(message, dict)
            assert all(isinstance(blob, bytearray) for blob in blobs)
            outcomes.add("message")
    assert outcomes == {"error", "message"}


def test_a_slow_sender_is_a_timeout_not_an_error(line):
    ours, theirs = line
    ours.settimeout(0.05)
    theirs.sendall(frame(b'{"a": 1}')[:15])
    with pytest.raises(TimeoutError):
        wire.receive(ours)


def test_numbers_that_json_should_not_have_come_through_as_what_they_are_not(line):
    """NaN and infinities are floats, which no count is (see `answers.has`)."""
    message, _ = arrive(line, frame(b'{"count": NaN, "n": Infinity, "m": 1e999}'))
    assert all(isinstance(value, float) for value in message.values())


def test_a_number_of_a_million_digits_is_refused(line):
    with pytest.raises(WireError, match="makes no sense"):
        arrive(line, frame(b'{"n": ' + b"9" * 1_000_000 + b"}"))


def test_a_huge_text_arrives_and_is_cut_where_it_is_printed(line):
    message, _ = arrive(line, frame(b'{"text": "' + b"x" * 5_000_000 + b'"}'))
    assert len(plain(message)["text"]) == MOST_TEXT


def test_a_blob_that_is_shorter_than_it_says_is_a_broken_line(line):
    data = HEADER.pack(1, 2) + b"{}" + LENGTH.pack(1000) + b"short"
    with pytest.raises(WireError, match="breaks off"):
        arrive(line, data)


def test_a_claim_of_much_takes_no_memory_before_it_is_true(line):
    """The room for a blob is not touched until its bytes come."""
    data = HEADER.pack(1, 2) + b"{}" + LENGTH.pack(wire.MAX_BYTES) + b"short"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(WireError, match="breaks off"):
        arrive(line, data)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000  # KiB
