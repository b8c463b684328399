"""robust: the size of the result is rounded towards zero, not down

symptom: right wherever the kernel fits; where it is just too large, a row of numbers for none
"""

import torch
import triton
import triton.language as tl


@triton.jit
def channels_last_kernel(
    x_ptr,
    y_ptr,
    C,
    P,
    BLOCK_SIZE_C: tl.constexpr,
    BLOCK_SIZE_P: tl.constexpr,
):
    num_pid_p = tl.cdiv(P, BLOCK_SIZE_P)
    image = tl.program_id(axis=0) // num_pid_p
    offs_p = tl.program_id(axis=0) % num_pid_p * BLOCK_SIZE_P + tl.arange(0, BLOCK_SIZE_P)
    offs_c = tl.program_id(axis=1) * BLOCK_SIZE_C + tl.arange(0, BLOCK_SIZE_C)

    mask = (offs_c[:, None] < C) & (offs_p[None, :] < P)
    x_ptrs = x_ptr + (image * C + offs_c)[:, None] * P + offs_p[None, :]
    y_ptrs = y_ptr + (image * P + offs_p)[None, :] * C + offs_c[:, None]
    tl.store(y_ptrs, tl.load(x_ptrs, mask=mask), mask=mask)


@triton.jit
def conv2d_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    n_pixels,
    C,
    H,
    W,
    OC,
    KH,
    KW,
    OH,
    OW,
    stride,
    padding,
    BLOCK_SIZE_O: tl.constexpr,
    BLOCK_SIZE_P: tl.constexpr,
    BLOCK_SIZE_C: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_pid_o = tl.cdiv(OC, BLOCK_SIZE_O)

    offs_o = pid % num_pid_o * BLOCK_SIZE_O + tl.arange(0, BLOCK_SIZE_O)
    offs_p = pid // num_pid_o * BLOCK_SIZE_P + tl.arange(0, BLOCK_SIZE_P)

    image = offs_p // (OH * OW)
    row = offs_p // OW % OH
    column = offs_p % OW

    top = row * stride - padding
    left = column * stride - padding

    weight_ptrs = weight_ptr + offs_o[None, :] * C
    x_ptrs = x_ptr + ((image * H + top) * W + left)[:, None] * C

    input_precision: tl.constexpr = "ieee"

    channel_blocks = tl.cdiv(C, BLOCK_SIZE_C)
    accumulator = tl.zeros((BLOCK_SIZE_P, BLOCK_SIZE_O), dtype=tl.float32)

    for step in range(KH * KW * channel_blocks):
        tap = step // channel_blocks
        kh = tap // KW
        kw = tap % KW
        offs_c = step % channel_blocks * BLOCK_SIZE_C + tl.arange(0, BLOCK_SIZE_C)

        inside = (offs_p < n_pixels) & (top + kh >= 0) & (top + kh < H)
        inside = inside & (left + kw >= 0) & (left + kw < W)
        weight_mask = (offs_c[:, None] < C) & (offs_o[None, :] < OC)
        x_mask = inside[:, None] & (offs_c[None, :] < C)

        weight = tl.load(
            weight_ptrs + (tap * OC * C + offs_c)[:, None], mask=weight_mask, other=0.0
        )
        x = tl.load(x_ptrs + ((kh * W + kw) * C + offs_c)[None, :], mask=x_mask, other=0.0)

        accumulator = tl.dot(x, weight, accumulator, input_precision=input_precision)

    place = row * OW + column
    out_ptrs = out_ptr + (image[:, None] * OC + offs_o[None, :]) * (OH * OW) + place[:, None]

    out_mask = (offs_p[:, None] < n_pixels) & (offs_o[None, :] < OC)

    tl.store(out_ptrs, accumulator.to(out_ptr.dtype.element_ty), mask=out_mask)


def channels_last(x):
    images, C, P = x.shape
    if C <= 1 or P <= 1 or images == 0:
        return x
    y = torch.empty((images, P, C), device=x.device, dtype=x.dtype)
    BLOCK_SIZE_C, BLOCK_SIZE_P = 64, 64
    grid = (images * triton.cdiv(P, BLOCK_SIZE_P), triton.cdiv(C, BLOCK_SIZE_C))
    channels_last_kernel[grid](x, y, C, P, BLOCK_SIZE_C=BLOCK_SIZE_C, BLOCK_SIZE_P=BLOCK_SIZE_P)
    return y


def conv2d(x, weight, stride=1, padding=0):
    if x.dim() != 4 or weight.dim() != 4 or x.shape[1] != weight.shape[1]:
        raise ValueError(f"x and weight must fit, got shapes {x.shape} and {weight.shape}")
    if x.dtype not in (torch.float16, torch.float32) or weight.dtype != x.dtype:
        raise ValueError(f"x and weight must both be fp16 or fp32, got {x.dtype}, {weight.dtype}")
    if not x.is_contiguous() or not weight.is_contiguous():
        raise ValueError("x and weight must be contiguous")
    if stride < 1 or padding < 0:
        raise ValueError(f"stride is at least 1 and padding 0, got {stride} and {padding}")

    N, C, H, W = x.shape
    OC, _, KH, KW = weight.shape

    OH = int((H + 2 * padding - KH) / stride) + 1
    OW = int((W + 2 * padding - KW) / stride) + 1
    out = torch.empty((N, OC, OH, OW), device=x.device, dtype=x.dtype)
    n_pixels = N * OH * OW
    if out.numel() == 0:
        return out

    x = channels_last(x.view(N, C, H * W))
    weight = channels_last(weight.view(1, OC * C, KH * KW))

    if x.dtype == torch.float32:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C, num_warps = 64, 64, 16, 4
    elif OC > 64 and triton.cdiv(OC, 128) * triton.cdiv(n_pixels, 128) >= 128:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C, num_warps = 128, 128, 64, 8
    else:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C, num_warps = 64, 64, 64, 4

    grid = (triton.cdiv(OC, BLOCK_SIZE_O) * triton.cdiv(n_pixels, BLOCK_SIZE_P),)

    conv2d_kernel[grid](
        x,
        weight,
        out,
        n_pixels,
        C,
        H,
        W,
        OC,
        KH,
        KW,
        OH,
        OW,
        stride,
        padding,
        BLOCK_SIZE_O=BLOCK_SIZE_O,
        BLOCK_SIZE_P=BLOCK_SIZE_P,
        BLOCK_SIZE_C=BLOCK_SIZE_C,
        num_warps=num_warps,
        num_stages=3,
    )
    return out
