"""Right or wrong, element by element: bounds against numpy.spacing, and nothing passes by accident."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from grader.oracle import compare, half_ulp

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
INF, NAN = math.inf, math.nan


def f64(*values):
    return torch.tensor(values, dtype=F64)


def zeros(like):
    return torch.zeros_like(like, dtype=F64)


# ---- half a unit in the last place --------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "kind"), [(F16, np.float16), (F32, np.float32)])
def test_half_ulp_is_half_of_numpys_spacing(dtype, kind):
    generator = np.random.default_rng(7)
    low, high = math.log2(np.finfo(kind).smallest_normal), math.log2(np.finfo(kind).max)
    values = 2 ** generator.uniform(low, high, 2000) * generator.choice([-1, 1], 2000)
    values = values.astype(kind)
    values[:4] = [1, 2, 1024, 0.125]  # at a power of two the gap is that of the numbers above
    want = np.spacing(np.abs(values)).astype(np.float64) / 2
    got = half_ulp(torch.from_numpy(values.astype(np.float64)), dtype)
    assert np.array_equal(got.numpy(), want)


def test_half_ulp_of_bf16_by_hand():
    """8 bits of mantissa: the numbers from 1 to 2 are 2^-7 apart, those from 256 to 512 are 2."""
    got = half_ulp(f64(1, 1.9, 2, 255, 256, -300), BF16)
    assert got.tolist() == [2**-8, 2**-8, 2**-7, 0.5, 1, 1]


@pytest.mark.parametrize(("dtype", "step"), [(F16, 2**-24), (BF16, 2**-133), (F32, 2**-149)])
def test_half_ulp_of_denormals_is_half_the_smallest_step(dtype, step):
    assert half_ulp(f64(0, step, 3 * step), dtype).tolist() == [step / 2] * 3


def test_half_ulp_of_what_is_no_number_is_finite():
    got = half_ulp(f64(NAN, INF, -INF, 1e300), F16)
    assert got.isfinite().all()
    assert got[1] == 16  # as at the largest number, 65504


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_one_rounding_is_within_half_an_ulp_and_two_are_not(dtype):
    want = torch.randn(5000, generator=torch.Generator().manual_seed(1), dtype=F64) * 100
    right = want.to(dtype)
    assert ((right.double() - want).abs() <= half_ulp(want, dtype)).all()
    next_up = torch.nextafter(right, torch.full_like(right, INF))
    assert ((next_up.double() - want).abs() >= half_ulp(want, dtype)).all()


# ---- comparing ----------------------------------------------------------------------------------


def test_equal_is_right_and_the_first_wrong_ones_are_named():
    want = f64(1, 2, 3, 4)
    assert compare(want.float(), want, zeros(want)) is None
    got = torch.tensor([1.0, 2.5, 3.0, 5.0])
    wrong = compare(got, want, zeros(want))
    assert wrong.count == 2
    assert wrong.first(1) == [((1,), 2.5, 2.0)]
    assert wrong.first() == [((1,), 2.5, 2.0), ((3,), 5.0, 4.0)]
    assert wrong.error.tolist() == [0, 0.5, 0, 1]


def test_the_bound_is_for_each_element_and_counts_its_edge_as_right():
    got, want = torch.tensor([1.5, 1.5]), f64(1, 1)
    assert compare(got, want, f64(0.5, 0.5)) is None
    assert compare(got, want, f64(0.5, 0.49)).wrong.tolist() == [False, True]


def test_nan_is_right_only_where_it_is_wanted():
    huge = f64(1e300, 1e300)
    assert compare(torch.tensor([NAN, NAN]), f64(NAN, NAN), huge) is None
    assert compare(torch.tensor([NAN, 1.0]), f64(1, NAN), huge).wrong.tolist() == [True, True]


def test_infinity_is_right_only_with_its_own_sign():
    huge = f64(1e300, 1e300)
    assert compare(torch.tensor([INF, -INF]), f64(INF, -INF), huge) is None
    assert compare(torch.tensor([INF, -INF]), f64(-INF, INF), huge).count == 2
    assert compare(torch.tensor([INF, 3.0]), f64(3, INF), huge).count == 2


def test_what_overflows_by_rounding_is_right():
    """65520 rounds to infinity in fp16; 65519 does not."""
    got = torch.tensor([INF, INF], dtype=F16)
    assert compare(got, f64(65520, 65519), zeros(got)).wrong.tolist() == [False, True]


def test_zero_has_no_sign_and_denormals_count():
    assert compare(torch.tensor([-0.0, 0.0]), f64(0, -0.0), f64(0, 0)) is None
    tiny = 2.0**-149
    assert compare(torch.tensor([0.0]), f64(tiny), f64(0)).count == 1
    assert compare(torch.tensor([tiny]), f64(tiny), f64(0)) is None


def test_nothing_is_broadcast():
    with pytest.raises(ValueError, match="shapes"):
        compare(torch.ones(4, 1), torch.ones(4, 5, dtype=F64), torch.ones(4, 5, dtype=F64))
    with pytest.raises(ValueError, match="shapes"):
        compare(torch.ones(1), torch.ones((), dtype=F64), torch.ones((), dtype=F64))


def test_whole_numbers_are_compared_as_they_are():
    """2^24 + 1 is lost in fp32, and 2^53 + 1 in fp64."""
    want = torch.tensor([2**24 + 1, 2**53 + 1])
    assert compare(want.clone(), want, zeros(want)) is None
    got = torch.tensor([2**24, 2**53])
    assert compare(got, want, torch.full((2,), 1e9, dtype=F64)).count == 2


def test_only_the_elements_asked_for_count():
    where = torch.tensor([True, False])
    assert compare(torch.tensor([1.0, 9.0]), f64(1, 2), f64(0, 0), where) is None
    assert compare(torch.tensor([7.0, 9.0]), f64(1, 2), f64(0, 0), where).count == 1


def test_an_empty_result_is_right():
    empty = torch.zeros(0, 3)
    assert compare(empty, empty.double(), empty.double()) is None
