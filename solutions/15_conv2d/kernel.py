"""Kata 15, conv2d: a convolution is a product of matrices whose second operand is never built.

    conv2d(x, weight, stride=1, padding=0) -> like torch.nn.functional.conv2d

The matrices: weight as [O, K] times windows as [K, pixels], where K counts the C * KH * KW numbers
of a window and pixels counts those of all output images. Unfolded in memory, the windows would be
KH * KW times as large as x. Here every program gathers the tiles it needs while it multiplies, a tap
of the kernel at a time. Both operands are brought into an order in which channels lie side by
side first: a tile is then made of whole lines of memory, wherever in the image its pixels are.
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
    """[images, C, P] becomes [images, P, C]: kata 5's transpose, once for every image."""
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
    x_ptr,  # [N, H, W, C]
    weight_ptr,  # [KH, KW, O, C]
    out_ptr,  # [N, O, OH, OW]
    n_pixels,  # N * OH * OW
    C,
    H,
    W,
    O,
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
    # One axis of programs. The tiles of channels change fastest, so that programs that run side by
    # side read the same pixels.
    pid = tl.program_id(axis=0)
    num_pid_o = tl.cdiv(O, BLOCK_SIZE_O)

    # This program's tile of the product: some output channels at some output pixels. Pixels are
    # numbered through all images, row by row.
    offs_o = pid % num_pid_o * BLOCK_SIZE_O + tl.arange(0, BLOCK_SIZE_O)
    offs_p = pid // num_pid_o * BLOCK_SIZE_P + tl.arange(0, BLOCK_SIZE_P)

    # A pixel's number tells the image it lies in, and its row and column there.
    image = offs_p // (OH * OW)
    row = offs_p // OW % OH
    column = offs_p % OW

    # How tl.dot multiplies fp32. fp16 goes to the tensor cores as it is.
    input_precision: tl.constexpr = "ieee"

    # The sum over K: for each tap, (0, 0) to (KH - 1, KW - 1), the channels block by block. One loop
    # rather than three, because the compiler loads ahead within a loop and not from one to the next.
    channel_blocks = tl.cdiv(C, BLOCK_SIZE_C)
    accumulator = tl.zeros((BLOCK_SIZE_O, BLOCK_SIZE_P), dtype=tl.float32)
    for step in range(0, KH * KW * channel_blocks):
        tap = step // channel_blocks
        offs_c = step % channel_blocks * BLOCK_SIZE_C + tl.arange(0, BLOCK_SIZE_C)

        # The pixel of x under this tap, for every output pixel. In the padding it lies outside.
        h = row * stride - padding + tap // KW
        w = column * stride - padding + tap % KW

        # Which pixels exist: output pixels, and those of x, on all four sides. The padding is never
        # stored anywhere; it is what a masked load gives.
        inside = (offs_p < n_pixels) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        weight_mask = (offs_o[:, None] < O) & (offs_c[None, :] < C)
        x_mask = inside[None, :] & (offs_c[:, None] < C)

        weight_ptrs = weight_ptr + (tap * O + offs_o)[:, None] * C + offs_c[None, :]
        x_ptrs = x_ptr + ((image * H + h) * W + w)[None, :] * C + offs_c[:, None]
        weight = tl.load(weight_ptrs, mask=weight_mask, other=0.0)
        x = tl.load(x_ptrs, mask=x_mask, other=0.0)

        # One more block of products on top of the sum.
        accumulator = tl.dot(weight, x, accumulator, input_precision=input_precision)

    # Back to [N, O, OH, OW]: the image, then the channel, then the place in the image.
    place = row * OW + column
    out_ptrs = out_ptr + (image[None, :] * O + offs_o[:, None]) * (OH * OW) + place[None, :]

    # Only channels and pixels that exist are written.
    out_mask = (offs_o[:, None] < O) & (offs_p[None, :] < n_pixels)

    # The one rounding: from fp32 to the dtype of the result.
    tl.store(out_ptrs, accumulator.to(out_ptr.dtype.element_ty), mask=out_mask)


def channels_last(x):
    """[images, C, P] in the order [images, P, C]."""
    images, C, P = x.shape
    if C <= 1 or P <= 1 or images == 0:
        return x  # it is in that order already
    y = torch.empty((images, P, C), device=x.device, dtype=x.dtype)
    BLOCK_SIZE_C, BLOCK_SIZE_P = 64, 64
    grid = (images * triton.cdiv(P, BLOCK_SIZE_P), triton.cdiv(C, BLOCK_SIZE_C))
    channels_last_kernel[grid](x, y, C, P, BLOCK_SIZE_C=BLOCK_SIZE_C, BLOCK_SIZE_P=BLOCK_SIZE_P)
    return y


def conv2d(x, weight, stride=1, padding=0):
    """The convolution of x with weight, in a new contiguous tensor of x's dtype."""
    if x.dim() != 4 or weight.dim() != 4 or x.shape[1] != weight.shape[1]:
        raise ValueError(f"x and weight must fit, got shapes {x.shape} and {weight.shape}")
    if x.dtype not in (torch.float16, torch.float32) or weight.dtype != x.dtype:
        raise ValueError(f"x and weight must both be fp16 or fp32, got {x.dtype}, {weight.dtype}")
    if not x.is_contiguous() or not weight.is_contiguous():
        raise ValueError("x and weight must be contiguous")
    if stride < 1 or padding < 0:
        raise ValueError(f"stride is at least 1 and padding 0, got {stride} and {padding}")

    N, C, H, W = x.shape
    O, _, KH, KW = weight.shape

    # How often the kernel fits into the padded image. Where it does not, the result is empty.
    OH = max((H + 2 * padding - KH) // stride + 1, 0)
    OW = max((W + 2 * padding - KW) // stride + 1, 0)
    out = torch.empty((N, O, OH, OW), device=x.device, dtype=x.dtype)
    n_pixels = N * OH * OW
    if out.numel() == 0:
        return out

    # [N, C, H, W] to [N, H, W, C]. The weight, taken as one image of KH * KW pixels with O * C
    # channels, becomes [KH, KW, O, C] in the same way.
    x = channels_last(x.view(N, C, H * W))
    weight = channels_last(weight.view(1, O * C, KH * KW))

    # Large tiles do more arithmetic for what they load, if there are enough to keep the chip busy.
    if x.dtype == torch.float32:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C = 64, 64, 32
        num_warps, num_stages = 4, 3
    elif O > 64 and triton.cdiv(O, 128) * triton.cdiv(n_pixels, 128) >= 128:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C = 128, 128, 64
        num_warps, num_stages = 8, 3
    else:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C = 64, 64, 64
        num_warps, num_stages = 4, 3

    # One program a tile of the product, in a row: the kernel finds out which is its own.
    grid = (triton.cdiv(O, BLOCK_SIZE_O) * triton.cdiv(n_pixels, BLOCK_SIZE_P),)

    conv2d_kernel[grid](
        x,
        weight,
        out,
        n_pixels,
        C,
        H,
        W,
        O,
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
        num_stages=num_stages,
    )
    return out
