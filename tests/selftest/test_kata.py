"""Inputs: the same on every machine, in the layouts that their names promise."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from grader.evidence import Evidence
from grader.grading import kernels, suite
from grader.kata import SMALL, Case, Draw, Drawn, Longest, case, drawn_size, lay_out

X = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("layout", "strides", "offset", "elements"),
    [
        ("contiguous", (4, 1), 0, 12),
        ("transposed", (1, 3), 0, 12),
        ("padded", (9, 1), 0, 22),  # 5 elements between rows
        ("columns apart", (1, 8), 0, 27),
        ("spread", (13, 2), 0, 33),  # every second one of rows that are 5 apart
        ("shifted", (4, 1), 1, 13),
    ],
)
def test_layouts_of_a_matrix(layout, strides, offset, elements):
    got = lay_out(X, layout)
    assert torch.equal(got, X)
    assert (got.stride(), got.storage_offset()) == (strides, offset)
    assert got.untyped_storage().nbytes() == 4 * elements


@pytest.mark.parametrize("layout", ["padded", "spread", "columns apart", "shifted"])
def test_gaps_hold_nan_or_junk(layout):
    got = lay_out(X, layout)
    storage = torch.empty(0).set_(got.untyped_storage())
    assert int(storage.isnan().sum()) == storage.numel() - 12
    whole = lay_out(X.int(), layout)
    storage = torch.empty(0, dtype=torch.int32).set_(whole.untyped_storage())
    assert int((storage == 77).sum()) == storage.numel() - 12


def test_layouts_of_three_dimensions():
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert lay_out(x, "transposed").stride() == (12, 1, 3)
    assert lay_out(x, "padded").stride() == (27, 9, 1)
    assert torch.equal(lay_out(x, "transposed"), x)
    assert torch.equal(lay_out(x, "padded"), x)


def test_layouts_of_a_vector_and_of_nothing():
    x = torch.arange(5.0)
    assert lay_out(x, "transposed").stride() == (1,)
    assert lay_out(x, "spread").stride() == (2,)
    for layout in ("contiguous", "transposed", "padded", "spread", "shifted"):
        assert lay_out(torch.zeros(0, 4), layout).shape == (0, 4)


def test_the_same_seed_and_label_give_the_same_numbers():
    first, again = Draw("seed", "add|full"), Draw("seed", "add|full")
    assert torch.equal(first.normal((100,)), again.normal((100,)))
    assert torch.equal(first.integers((100,)), again.integers((100,)))
    for other in (Draw("other", "add|full"), Draw("seed", "add|ragged")):
        assert not torch.equal(Draw("seed", "add|full").normal((100,)), other.normal((100,)))


@pytest.mark.parametrize("layout", ["spread", "columns apart", "shifted", "one row"])
def test_what_was_drawn_before_is_handed_out_as_a_copy(layout):
    times = []

    def inputs(draw, n):
        times.append(n)
        return [draw.normal((3, n), layout=layout), n]

    kata, asked = SimpleNamespace(launcher="f", inputs=inputs), Case("full", {"n": 8})
    drawn = Drawn(1000)
    first, second = (drawn.arguments(kata, "seed", asked) for _ in range(2))
    assert times == [8]
    fresh = inputs(Draw("seed", "f|full||"), 8)[0]
    for x, n in (first, second):
        assert torch.equal(x, fresh)
        assert n == 8
        assert (x.stride(), x.storage_offset()) == (fresh.stride(), fresh.storage_offset())
        assert x.untyped_storage().nbytes() == fresh.untyped_storage().nbytes()
        x.untyped_storage().fill_(0)
    assert torch.equal(drawn.arguments(kata, "seed", asked)[0], fresh)
    assert not torch.equal(drawn.arguments(kata, "other", asked)[0], fresh)
    assert not torch.equal(drawn.arguments(kata, "seed", asked, "again")[0], fresh)


def test_what_was_drawn_is_kept_up_to_a_limit():
    drawn = Drawn(100)
    kata = SimpleNamespace(launcher="f", inputs=lambda draw, n: [torch.zeros(n)])
    for n in (10, 10, 12, 1000, 3):
        drawn.arguments(kata, "", Case("full", {"n": n}))
        assert drawn.held <= 100
    assert drawn.held == 12


def test_numbers_are_what_was_asked_for():
    draw = Draw("seed", "label")
    x = draw.normal((100_000,), mean=3.0, std=0.5)
    assert abs(float(x.mean()) - 3) < 0.01
    assert abs(float(x.std()) - 0.5) < 0.01
    n = draw.integers((10_000,), torch.int32, -2, 3)
    assert n.unique().tolist() == [-2, -1, 0, 1, 2]
    assert draw.normal((2, 3), torch.bfloat16, layout="transposed").stride() == (1, 2)


def test_sizes_that_depend_on_the_block_are_settled():
    one = case("ragged", n=lambda block: block[0] - 1, dtype=torch.float16)
    settled = one.settled((256,))
    assert settled == Case("ragged", {"n": 255, "dtype": torch.float16}, "n=255, dtype=float16")
    assert case("edge", name="empty", n=0).settled((1,)).name == "empty"
    assert case("edge", shape=(3, 5)).settled((1,)).name == "shape=(3,5)"


def test_a_block_is_what_is_stored_and_what_is_loaded_for_it():
    loads = {"q": [128, 64], "k": [64, 32], "v": [32, 64]}
    facts = {"launches": [{"block": [128, 64], "loads": loads}]}
    run = SimpleNamespace(facts=facts, incomplete=False)

    def seen(parameters, usual):
        kata = SimpleNamespace(parameters=parameters, usual_block=usual)
        return Evidence._block(SimpleNamespace(kata=kata), run)

    assert seen(("q", "k", "v", "scale"), (1, 2, 3, 4, 5)) == (128, 64, 64, 2048, 2048)
    assert seen(("q", "k"), (1, 2, 3)) == (128, 64, 64)
    assert seen(("scale", "k"), (1, 2, 3, 4)) == (128, 64, 3, 4)


# ---- sizes drawn where a class is graded --------------------------------------------------------

SEEDS = [f"seed {n}" for n in range(40)]


def block(size: int) -> int:
    return 1 << (size - 1).bit_length()


@pytest.mark.parametrize("size", [100, 777, 1000, 1040, 4099, 20_011, 128_000, 1_100_000])
def test_a_drawn_size_shows_what_the_stated_one_shows(size):
    drawn = {drawn_size(size, seed) for seed in SEEDS}
    assert len(drawn) > 1
    for other in drawn:
        assert abs(other - size) <= size // 8
        assert block(other) == block(size)
        assert other & -other == size & -size  # a multiple of the same powers of two
        assert min(block(other) - other, other - block(other) // 2) > 1


def test_no_size_is_drawn_beyond_what_a_contract_allows():
    """Neither by itself nor by way of a case, which has others drawn instead."""
    drawn = {drawn_size(Longest(200_000), seed) for seed in SEEDS}
    assert len(drawn) > 1
    assert max(drawn) <= 200_000
    assert min(drawn) >= 175_000
    walk = case("walk", C=Longest(200_000))
    assert {walk.settled((64,), seed).sizes["C"] for seed in SEEDS} == drawn
    assert walk.settled((64,)).sizes == {"C": 200_000}


@pytest.mark.parametrize("size", [*range(SMALL + 1), 63, 64, 65, 127, 129, 1023, 1024, 1025, 2**20])
def test_sizes_that_a_case_exists_for_stay(size):
    assert {drawn_size(size, seed) for seed in SEEDS} == {size}


def test_every_size_of_every_suite_can_be_drawn():
    for kata in kernels():
        for one in suite(kata).KATA.cases:
            drawn = one.settled(suite(kata).KATA.usual_block, "x")
            for name, stated in one.sizes.items():
                if type(stated) in (int, Longest) and (name == "n" or name.isupper()):
                    assert block(drawn.sizes[name]) == block(stated)
                elif not callable(stated):
                    assert drawn.sizes[name] is stated


def test_equal_sizes_are_drawn_equal_and_a_seed_draws_the_same_again():
    stated = case("full", R=1000, C=1000, n=777, eps=3, bins=100, edge=lambda block: block[0] + 1)
    drawn = stated.settled([64], "a").sizes
    assert drawn["R"] == drawn["C"]
    assert (drawn["eps"], drawn["bins"], drawn["edge"]) == (3, 100, 65)
    assert drawn == stated.settled([64], "a").sizes
    assert len({stated.settled([64], seed).sizes["n"] for seed in SEEDS}) > 10
    assert stated.settled([64]).sizes["n"] == 777  # for learners and selfcheck


# Cases whose numbers are their point: infinities, ones that an fp16 sum loses, a single bin.
FIXED = {"special", "odd", "kind", "lift", "bins", "who"}


@pytest.mark.parametrize("kata", kernels())
def test_the_seed_is_in_every_input_but_those_whose_numbers_are_their_point(kata):
    whole = suite(kata).KATA
    same = []
    for stated in whole.cases:
        one = stated.settled(whole.usual_block)
        sizes = [n for n in one.sizes.values() if type(n) is int]
        if math.prod(max(n, 1) for n in sizes) > 300_000 or FIXED & set(one.sizes):
            continue
        inputs = whole.of(one.launcher).inputs
        first, second = (
            [a for a in inputs(Draw(seed, "x"), **one.sizes) if isinstance(a, torch.Tensor)]
            for seed in "ab"
        )
        if sum(a.numel() for a in first) > 1 and all(map(torch.equal, first, second)):
            same.append(one.name)
    assert same == []
