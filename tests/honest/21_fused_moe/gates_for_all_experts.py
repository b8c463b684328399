"""A dense table of weights, experts by tokens: a block of tokens goes through all experts that any of it has."""

import torch
import triton
import triton.language as tl


@triton.jit
def all_experts_kernel(
    x_ptr, w_ptr, table_ptr, chosen_ptr, y_ptr, T, D_IN, D_OUT, E,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    y = tl.zeros((BM, BN), tl.float32)
    for e in range(E):
        chosen = tl.load(chosen_ptr + t * E + e, mask=t < T, other=0) != 0
        if tl.sum(chosen.to(tl.int32), 0) > 0:
            acc = tl.zeros((BM, BN), tl.float32)
            for first in range(0, D_IN, BK):
                i = first + tl.arange(0, BK)
                x = tl.load(
                    x_ptr + t[:, None] * D_IN + i[None, :],
                    mask=chosen[:, None] & (i[None, :] < D_IN),
                    other=0.0,
                )
                w = tl.load(
                    w_ptr + (e * D_OUT + n[None, :]) * D_IN + i[:, None],
                    mask=(n[None, :] < D_OUT) & (i[:, None] < D_IN),
                    other=0.0,
                )
                acc = tl.dot(x, w, acc)
            gate = tl.load(table_ptr + t * E + e, mask=chosen, other=0.0)
            y = tl.where(chosen[:, None], y + acc * gate[:, None], y)
    tl.store(
        y_ptr + t[:, None] * D_OUT + n[None, :],
        y.to(y_ptr.dtype.element_ty),
        mask=(t[:, None] < T) & (n[None, :] < D_OUT),
    )


def fused_moe(x, weights, topk_weights, topk_ids):
    (T, D_IN), (E, D_OUT, _) = x.shape, weights.shape
    ids = topk_ids.long()
    table = torch.zeros((T, E), device=x.device).scatter_(1, ids, topk_weights)
    chosen = torch.zeros((T, E), device=x.device, dtype=torch.int8).scatter_(1, ids, 1)
    y = torch.empty((T, D_OUT), device=x.device, dtype=x.dtype)
    if y.numel():
        grid = (triton.cdiv(T, 16), triton.cdiv(D_OUT, 64))
        all_experts_kernel[grid](
            x, weights, table, chosen, y, T, D_IN, D_OUT, E, BM=16, BN=64, BK=64
        )
    return y
