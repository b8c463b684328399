"""Answers of a child are taken only in the shape that a lane gives them, with texts safe to print."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from grader.answers import error_of, has, plain, sound, sound_beside_error
from grader.reasons import Wrong
from grader.tensors import decode

COPY = """
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))

def run(x):
    out = torch.empty_like(x)
    kernel[(2,)](x, out, x.numel(), BLOCK=16)
    return out
"""


@pytest.fixture(scope="module")
def facts(traced):
    """Real facts with an out-of-bounds event, and 3 blobs to go with them."""
    return traced(COPY, "x")(torch.zeros(20)).facts


def test_real_facts_are_sound(facts):
    assert facts["outside"]
    assert sound("trace", facts, [b""] * 3, 1)
    assert not sound("trace", facts, [b""] * 2, 1)  # a blob that is not there
    assert not sound("trace", facts, [b""] * 3, 2)  # one input tensor too few


def test_facts_with_any_part_replaced_are_refused_or_harmless(facts):
    """Each value in turn becomes something else; what is let through has the same shape still."""
    dice = random.Random(5)
    junk = [None, True, -1, 10**30, 1.5, "text", [], [[]], {}, {"a": 1}]

    def places(value, path=()):
        yield path
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in inner:
            if isinstance(item, (dict, list)):
                yield from places(item, (*path, key))
            else:
                yield (*path, key)

    refused = 0
    for path in places(facts):
        if not path:
            continue
        for new in dice.sample(junk, 4):
            changed = copy.deepcopy(facts)
            owner = changed
            for key in path[:-1]:
                owner = owner[key]
            owner[path[-1]] = new
            refused += not sound("trace", changed, [b""] * 3, 1)
    assert refused > 100
    for key in ("result", "launches", "sites", "outside", "hazards", "buffers", "inputs"):
        assert not sound("trace", {k: v for k, v in facts.items() if k != key}, [b""] * 3, 1)


def test_compiled_facts():
    launch = {"kernel": "k", "target": "sm_80", "ok": None} | dict.fromkeys(
        ("config", "grid_error", "error")
    )
    assert sound("compile", {"launches": [launch]}, [], 1)
    assert not sound("compile", {}, [], 1)
    assert not sound("compile", {"launches": [launch | {"ok": True}]}, [], 1)  # built, and no facts
    assert not sound("compile", {"launches": [launch | {"error": "text"}]}, [], 1)


def test_facts_of_a_card():
    event = {"buffer": "out", "kind": "empty", "side": "after", "count": 1, "elements": 9}
    facts = {
        "result": [{"type": "NoneType"}],
        "launches": [{"kernel": "add_kernel"}],
        "launched": 1,
        "outside": [event],
        "foreign": [],
        "tuners": [],
        "inputs": [0],
    }
    assert sound("gpu", facts, [b""], 1)
    assert not sound("gpu", facts, [], 1)
    assert not sound("gpu", facts | {"launched": 1e400}, [b""], 1)
    assert not sound("gpu", facts | {"outside": [event | {"side": "around"}]}, [b""], 1)
    assert not any(sound("gpu", {k: facts[k] for k in facts if k != x}, [b""], 1) for x in facts)


def test_facts_of_a_measurement():
    times = {"kind": "memory", "work": 1.0, "ceiling_work": 2, "ms": {"launcher": [0.5]}}
    times |= {"unseen": {"launcher": [0.0]}, "early": {"torch": 0.5}, "by_host": [], "late": [True]}
    times |= {"sizes": "n=2^28"}
    assert sound("speed", times, [], 0)
    assert sound("speed", {"refused": "why"}, [], 0)
    assert not sound("speed", {"refused": {}}, [], 0)
    assert not sound("speed", times | {"ms": {"launcher": ["0.5"]}}, [], 0)
    assert not any(sound("speed", {k: times[k] for k in times if k != x}, [], 0) for x in times)


@pytest.mark.parametrize(
    ("value", "shape", "fits"),
    [
        (1, int, True),
        (True, int, False),
        (True, bool, True),
        (None, (int, None), True),
        (2**63 - 1, int, True),
        (10**400, int, False),
        (float("nan"), int, False),
        (float("inf"), [int], False),
        ("a", ("a", "b"), True),
        ("c", ("a", "b"), False),
        ([1, 2], [int], True),
        ([1, "2"], [int], False),
        ({"a": 1, "b": 2}, {"a": int}, True),
        ({"b": 2}, {"a": int}, False),
        ({"x": [1]}, {str: [int]}, True),
        ({"x": 1}, {str: [int]}, False),
        ([], {"a": int}, False),
        ({"x": 10**30}, {str: int}, False),
    ],
)
def test_shapes(value, shape, fits):
    assert has(value, shape) is fits


def test_texts_are_safe_to_print():
    assert plain("\x1b[2J \a \ud800 tab\t") == r"\x1b[2J \x07 \ud800 tab\t"
    assert plain("two\nlines, größer") == "two\nlines, größer"
    assert len(plain("x" * 1_000_000)) == 4000
    assert plain({"\x1b": ["\r", 1, None, {"a": "\0"}]}) == {
        r"\x1b": [r"\r", 1, None, {"a": r"\x00"}]
    }


def test_tuners_beside_an_error_have_their_shape():
    tuner = {"keys": ["n"], "key_values": ["3"], "configs": [{"kwargs": {"BLOCK": "1"}}]}
    for fine in ({}, {"tuners": []}, {"tuners": None}, {"tuners": [tuner]}):
        assert sound_beside_error("trace", fine | {"launches": "whatever"})
    for forged in (7, "ab", [{}], [tuner | {"configs": 3}], {"a": 1}):
        assert not sound_beside_error("trace", {"tuners": forged})
        assert sound_beside_error("compile", {"tuners": forged})


def test_an_error_comes_into_form_whatever_it_is():
    assert error_of({}, "trace") is None
    empty = {"where": "launcher", "type": "", "message": "", "line": None}
    for nonsense in (7, "text", [], {}, {"where": "nowhere"}, {"line": "3"}, {"line": True}):
        assert error_of({"error": nonsense}, "trace") == empty
    given = {"where": "kernel", "type": "ValueError", "message": "no", "line": 3, "more": 1}
    assert error_of({"error": given}, "trace") == {k: v for k, v in given.items() if k != "more"}
    missing = error_of({"error": {"missing": "add", "defined": ["a", 1, "b" * 200]}}, "trace")
    assert missing["defined"] == ["a", "1", "b" * 80]
    assert error_of({"error": {"where": "tampering"}}, "trace")["names"] == []


@pytest.mark.parametrize("where", ["card", "no-card"])
def test_only_a_lane_on_a_card_has_trouble_with_a_card(where):
    """What a card is said to refuse is not judged, and so no part of the maximum."""
    error = {"error": {"where": where, "type": "", "message": "", "line": None}}
    assert {error_of(error, lane)["where"] for lane in ("trace", "compile", "talk")} == {"launcher"}
    assert {error_of(error, lane)["where"] for lane in ("gpu", "speed", "card talk")} == {where}


def test_what_is_nested_without_end_is_refused():
    nested: object = 1
    for _ in range(50):
        nested = [nested]
    assert plain({"a": nested[0]}) == {"a": nested[0]}
    with pytest.raises(ValueError, match="nested"):
        plain({"a": {"b": nested}})


@pytest.mark.parametrize(
    "name", ["qint8", "quint4x2", "bits8", "float8_e4m3fn", "Tensor", "nn", ""]
)
def test_a_result_of_an_odd_dtype_is_the_files_fault(name):
    with pytest.raises(Wrong, match="unknown dtype"):
        decode(b"\0" * 16, name, (16,))


@pytest.mark.parametrize("shape", [(5,), (-1,), (2**62, 2**62), (0,), ()])
def test_bytes_that_do_not_fit_the_shape_are_refused(shape):
    with pytest.raises(Wrong, match="do not fit"):
        decode(b"\0" * 16, "float32", shape)
