"""Which mistake gives just these wrong numbers: held against formulas, strides and ways to be off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from . import oracle

if TYPE_CHECKING:
    from .run import Run


def suspect(run: Run, part: int) -> tuple[str, str] | None:
    """A mistake that gives exactly these numbers, from the kata's list of usual suspects."""
    got = run.got(part)
    if got.numel() > 1 and bool((got == got.flatten()[0]).all()):
        return None  # one number all over, zero for instance, can come from anywhere
    for cause, sentence, formula in run.kata.suspects:
        if _gives(run, part, formula, run.asked):
            return cause, sentence
    return None


def misread(run: Run, part: int) -> tuple[str, str]:
    """What to say where arguments were read through other strides than their own, and whose.

    Both are "" where that does not give these numbers.
    """
    named = zip(run.kata.parameters, run.arguments, strict=False)
    strided = {
        at: (name, tensor)
        for at, (name, tensor) in enumerate(named)
        if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous()
    }
    if run.kata.choice is not None or not strided:
        return "", ""
    guesses = [
        (name, {at: other}, f"{name} read {how}")
        for at, (name, tensor) in strided.items()
        for other, how in read_otherwise(tensor)
    ]
    if len(strided) > 1:
        names = " and ".join(name for name, _ in strided.values())
        plain = {at: next(iter(read_otherwise(t)))[0] for at, (_, t) in strided.items()}
        guesses.append(("", plain, f"{names} read as if they were contiguous"))
    for name, others, text in guesses:
        if all(other is not None for other in others.values()):
            asked = [others.get(at, value) for at, value in enumerate(run.asked)]
            if _gives(run, part, run.kata.reference, asked):
                return f"These are the numbers of {text}", name
    return "", ""


def pattern(run: Run, wrong: oracle.Mismatch, part: int) -> tuple[str, str] | None:
    """What the way in which the numbers are wrong gives away, whatever the kata."""
    got, want = wrong.got.double(), wrong.want.double()
    seen = torch.ones_like(wrong.wrong)
    if run.lane == "trace":
        seen = run.written(part)
    if bool((got[seen].isnan() & ~want[seen].isnan()).any()):
        return None
    finite = seen & want.isfinite() & got.isfinite()
    if not bool(finite.any()):
        return None
    scale = want[finite].abs().clamp(min=1e-30)
    relative = float((wrong.error[finite] / scale).median())
    worst = float(wrong.error[finite].max() / scale.max())
    if not wrong.got.dtype.is_floating_point and worst < 2**-20:
        return "precision", "Whole numbers lost their last bits on the way through fp32."
    if wrong.got.dtype.is_floating_point and 3e-5 < relative < 2**-7 and worst < 2**-6:
        return (
            "precision",
            f"They are off by about {worst:.0e} of the largest: some step is done in a lower "
            "precision than fp32.",
        )
    if wrong.got.dtype == torch.float32 and 2**-20 < relative <= 3e-5 and worst < 3e-5:
        return (
            "precision",
            f"They are off by about {worst:.0e} of the largest, more than any order of an fp32 "
            "sum would be: some step keeps fewer digits than fp32.",
        )
    if got.numel() > 2 and got.numel() == int(seen.sum()) and wrong.count > 1:
        off = wrong.wrong & finite
        a, b = got[wrong.wrong].sort().values, want[wrong.wrong].sort().values
        spread = run.bounds[part][off].amax() + 1e-6 * want[off].abs().amax() if off.any() else 0
        moved = bool((wrong.error[off] > spread).any())  # more than a last bit or two
        if moved and bool(((a == b) | ((a - b).abs() <= spread)).all()):
            return "offsets", "The right numbers stand in the wrong places."
    return None


def _gives(run: Run, part: int, formula, asked: list) -> bool:
    """Whether the numbers of a result are those of another formula, or of other arguments."""
    got = run.got(part)
    try:
        other = formula(*asked)
    except (RuntimeError, TypeError, IndexError, ValueError, ArithmeticError):
        return False  # some formulas fit some arguments only
    other = other[part] if isinstance(other, tuple) else other
    if other is None or other.shape != got.shape or torch.equal(other, run.want[part]):
        return False
    written = run.written(part) if run.lane == "trace" else None
    looked_at = got if written is None else got[written]
    if not bool(looked_at.isfinite().any()):
        return False  # where nothing is looked at, or nothing is a number, many formulas fit
    bound, want = run.bounds[part].nan_to_num(0.0, 0.0), run.want[part]
    if oracle.compare(got, want, bound + 1e-3 * want.abs(), written) is not None:
        bound = bound + 1e-3 * other.abs()  # else right numbers are as near: only its own will do
    return oracle.compare(got, other, bound, written) is None


def read_otherwise(tensor: torch.Tensor) -> list[tuple[torch.Tensor | None, str]]:
    """What a strided tensor is, in fp64, where a kernel takes other strides for its own, and how.

    First come those of a contiguous tensor. None where its memory does not reach that far.
    """
    plain, own = torch.empty(tensor.shape, device="meta").stride(), tensor.stride()
    ways = [(plain, "as if it were contiguous: its strides take part in no offset")]
    for axis, stride in enumerate(plain):
        ways.append(((*own[:axis], stride, *own[axis + 1 :]), f"without its stride({axis})"))
    if tensor.dim() == 2:
        ways.append((own[::-1], "with its two strides in each other's place"))
    room = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    found: list[tuple[torch.Tensor | None, str]] = []
    for strides, how in ways:
        last = sum((n - 1) * s for n, s in zip(tensor.shape, strides, strict=True))
        if last >= room or tuple(strides) == own:
            found.append((None, how))
            continue
        read = torch.as_strided(tensor, tensor.shape, strides, tensor.storage_offset())
        found.append((read.double() if read.is_floating_point() else read, how))
    return found
