"""Right or wrong: results held against an fp64 reference, with a bound for every element.

The bound is one rounding to the result's dtype plus what fp32 arithmetic in any order may cost;
it is tight enough that computing in the next lower precision fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

# Unit roundoff: half the gap between 1 and the next number (IEEE 754; bf16 has 8 bits of mantissa).
ROUNDOFF = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
}
EPS32 = ROUNDOFF[torch.float32]
EXPONENT = 0x7FF << 52  # of an fp64's bits: what they leave is the power of two just below


def half_ulp(reference: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The largest error of one correct rounding of `reference` (fp64) to `dtype`, per element."""
    info = torch.finfo(dtype)
    magnitude = torch.nan_to_num(reference.double().abs(), nan=0.0)
    magnitude = magnitude.clamp(min=info.smallest_normal, max=info.max)
    below = (magnitude.view(torch.int64) & EXPONENT).view(torch.float64)
    return below * ROUNDOFF[dtype]


@dataclass(frozen=True)
class Mismatch:
    """Where a result differs: how many elements, and the first few with got and want."""

    wrong: torch.Tensor  # bool, shape of the result
    got: torch.Tensor
    want: torch.Tensor
    error: torch.Tensor

    @property
    def count(self) -> int:
        return int(self.wrong.sum())

    def first(self, most: int = 3) -> list[tuple[tuple[int, ...], float, float]]:
        """The first wrong elements as (index, got, want)."""
        places = torch.nonzero(self.wrong)[:most].tolist()
        return [(tuple(p), self.got[tuple(p)].item(), self.want[tuple(p)].item()) for p in places]


def compare(got, want, bound, where=None) -> Mismatch | None:
    """Hold `got` against `want` (fp64) element by element; None when all is well.

    `bound`: absolute error allowed, fp64 of the same shape, on top of nothing else. `where`: bool
    mask of the elements to look at. A NaN is right only where the reference is NaN; an infinity
    only where the reference, rounded to got's dtype, is that infinity.
    Raises ValueError for different shapes: nothing is ever broadcast.
    """
    if got.shape != want.shape:
        raise ValueError(f"shapes {tuple(got.shape)} and {tuple(want.shape)}")
    if not got.dtype.is_floating_point:
        wrong = got != want.to(got.dtype)
        error = (got.double() - want.double()).abs()
    else:
        value = got.double()
        error = (value - want).abs()
        # An error that is no number, or infinite, is near to nothing.
        near = error <= bound.clamp(max=torch.finfo(torch.float64).max)
        if bool(near.all()):
            return None
        same = (value == want.to(got.dtype).double()) | (value.isnan() & want.isnan())
        wrong = ~(same | near)
    if where is not None:
        wrong = wrong & where
    return Mismatch(wrong, got, want, error) if bool(wrong.any()) else None
