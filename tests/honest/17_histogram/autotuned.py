"""Tuned, with the counters reset before each trial; block sizes from 256 to 4096."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 256}, num_warps=4),
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 4096}, num_warps=8),
    ],
    key=["n", "n_bins"],
    reset_to_zero=["out_ptr"],
)
@triton.jit
def kernel(
    x_ptr, out_ptr, n, n_bins, BINS: tl.constexpr, PRIVATE: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=-1)
    inside = (x >= 0) & (x < n_bins)
    if PRIVATE:
        bins = tl.arange(0, BINS)
        counts = tl.histogram(x.to(tl.int32), BINS, mask=inside)
        tl.atomic_add(out_ptr + bins, counts, mask=(bins < n_bins) & (counts > 0))
    else:
        tl.atomic_add(out_ptr + x, inside.to(tl.int32), mask=inside)


def histogram(x, bins):
    out = torch.zeros((bins,), dtype=torch.int32, device=x.device)
    n = x.numel()
    if n == 0:
        return out
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    kernel[grid](x, out, n, bins, BINS=triton.next_power_of_2(bins), PRIVATE=bins <= 512)
    return out
