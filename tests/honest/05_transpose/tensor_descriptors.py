"""Tensor descriptors where memory is aligned, plain pointers elsewhere."""

import torch
import triton
import triton.language as tl


@triton.jit
def with_descriptors(x_ptr, out_ptr, M, N, stride_m, stride_n, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(axis=0) * BM, tl.program_id(axis=1) * BN
    x_desc = tl.make_tensor_descriptor(x_ptr, [M, N], [stride_m, 1], [BM, BN])
    out_desc = tl.make_tensor_descriptor(out_ptr, [N, M], [M, 1], [BN, BM])
    out_desc.store([n, m], tl.trans(x_desc.load([m, n])))


@triton.jit
def with_pointers(x_ptr, out_ptr, M, N, stride_m, stride_n, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(axis=0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(axis=1) * BN + tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    x = tl.load(x_ptr + m * stride_m + n * stride_n, mask=inside)
    tl.store(out_ptr + m + n * M, x, mask=inside)


def fits_descriptor(t):
    row_bytes = t.stride(0) * t.element_size()
    aligned = t.data_ptr() % 16 == 0 and row_bytes % 16 == 0
    return aligned and t.stride(1) == 1 and row_bytes > 0 and t.element_size() < 8


def transpose(x):
    """Rows become columns."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )
    grid = (triton.cdiv(n_rows, 32), triton.cdiv(n_cols, 32))
    kernel = with_descriptors if fits_descriptor(x) and fits_descriptor(out) else with_pointers
    kernel[grid](x, out, n_rows, n_cols, *x.stride(), BM=32, BN=32)
    return out
