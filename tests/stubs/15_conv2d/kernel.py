"""Kata 15, conv2d: a convolution as a product of matrices whose first operand is never built.

    conv2d(x, weight, stride=1, padding=0) -> like torch.nn.functional.conv2d

x is [N, C, H, W] and weight is [OC, C, KH, KW], both fp16 or both fp32, contiguous; stride and
padding are whole numbers, the same for rows and columns. The result is a new contiguous
[N, OC, OH, OW] tensor of x's dtype, OH = (H + 2 * padding - KH) // stride + 1 and OW likewise, empty
where the kernel fits nowhere. As in PyTorch the kernel is not flipped, and the padding is zeros.
Products are summed in fp32, fp32 itself is multiplied as fp32, and all is rounded once. PyTorch
must not unfold x. Any size may be 0; without channels the result is zeros.

Type `nox -s check-15` to see how far the kernel is; README.md of this kata is the lesson.
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
    weight_ptr,  # [KH, KW, OC, C]
    out_ptr,  # [N, OC, OH, OW]
    n_pixels,  # N * OH * OW
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
    # One axis of programs. The tiles of channels change fastest, so that programs that run side by
    # side read the same pixels.
    pid = tl.program_id(axis=0)
    num_pid_o = tl.cdiv(OC, BLOCK_SIZE_O)

    # TODO(offsets): this program's tile of the product: some output channels at some output pixels.
    # Pixels are numbered through all images, row by row.
    offs_o = pid * 0 + tl.arange(0, BLOCK_SIZE_O)
    offs_p = num_pid_o * 0 + tl.arange(0, BLOCK_SIZE_P)

    # TODO(offsets): a pixel's number tells the image it lies in, and its row and column there. As
    # it stands, all pixels lie in one row.
    image = offs_p * 0
    row = offs_p * 0
    column = offs_p

    # TODO(layout): the pixel of x under the kernel's first tap, for each output pixel: follow stride
    # and padding. It may lie in the padding.
    top = row
    left = column

    # From there on each tap is as far away as any other pixel's.
    weight_ptrs = weight_ptr + offs_o[None, :] * C
    x_ptrs = x_ptr + ((image * H + top) * W + left)[:, None] * C

    # TODO(precision): tl.dot rounds fp32 to TF32 before it multiplies, unless it is told otherwise.
    input_precision: tl.constexpr = "tf32"

    # The sum over K: for each tap, (0, 0) to (KH - 1, KW - 1), the channels block by block. One
    # loop rather than three: the compiler loads ahead within a loop, not from one to the next.
    channel_blocks = tl.cdiv(C, BLOCK_SIZE_C)
    accumulator = tl.zeros((BLOCK_SIZE_P, BLOCK_SIZE_O), dtype=tl.float32)

    # TODO(accumulate): a step for every block of channels of every tap. As it stands, there is one.
    for step in range(1):
        # Which tap and which channels this step is for.
        tap = step // channel_blocks
        kh = tap // KW
        kw = tap % KW
        offs_c = step % channel_blocks * BLOCK_SIZE_C + tl.arange(0, BLOCK_SIZE_C)

        # TODO(mask): the padding is stored nowhere: it is what a masked load gives. So which pixels
        # exist under this tap? And which channels, of either kind?
        inside = offs_p >= 0
        weight_mask = (offs_c[:, None] >= 0) & (offs_o[None, :] >= 0)
        x_mask = inside[:, None] & (offs_c[None, :] >= 0)

        weight = tl.load(
            weight_ptrs + (tap * OC * C + offs_c)[:, None], mask=weight_mask, other=0.0
        )
        x = tl.load(x_ptrs + ((kh * W + kw) * C + offs_c)[None, :], mask=x_mask, other=0.0)

        # TODO(accumulate): one more block of products on top of the sum, which this replaces.
        accumulator = tl.dot(x, weight, input_precision=input_precision)

    # Back to [N, OC, OH, OW]: the image, then the channel, then the place in the image.
    place = row * OW + column
    out_ptrs = out_ptr + (image[:, None] * OC + offs_o[None, :]) * (OH * OW) + place[:, None]

    # TODO(mask): which elements of the tile exist.
    out_mask = (offs_p[:, None] >= 0) & (offs_o[None, :] >= 0)

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
    OC, _, KH, KW = weight.shape

    # How often the kernel fits into the padded image. Where it does not, the result is empty.
    OH = max((H + 2 * padding - KH) // stride + 1, 0)
    OW = max((W + 2 * padding - KW) // stride + 1, 0)
    out = torch.empty((N, OC, OH, OW), device=x.device, dtype=x.dtype)
    n_pixels = N * OH * OW
    if out.numel() == 0:
        return out

    # [N, C, H, W] to [N, H, W, C]. The weight, taken as one image of KH * KW pixels with OC * C
    # channels, becomes [KH, KW, OC, C] in the same way.
    x = channels_last(x.view(N, C, H * W))
    weight = channels_last(weight.view(1, OC * C, KH * KW))

    # A large tile does more arithmetic for what it loads, if it is not half empty and if there are
    # enough of them to keep the chip busy. Without tensor cores there is less room for a tile.
    if x.dtype == torch.float32:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C, num_warps = 64, 64, 16, 4
    elif OC > 64 and triton.cdiv(OC, 128) * triton.cdiv(n_pixels, 128) >= 128:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C, num_warps = 128, 128, 64, 8
    else:
        BLOCK_SIZE_O, BLOCK_SIZE_P, BLOCK_SIZE_C, num_warps = 64, 64, 64, 4

    # TODO(grid): one program a tile of the product, in a row: a tuple with their number.
    grid = (1,)

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
