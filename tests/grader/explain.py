"""What an error of the file under test means for the learner: the reason that a check ends with.

A child tells its errors as facts (see `answers.error_of`): where it arose, its type, message and line.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from . import hints
from .reasons import NotJudged, Stops, Unusable, Wrong
from .words import grid_text, plural

if TYPE_CHECKING:
    from .run import Run

CROWD = 8  # times the programs that there are blocks: so many are too many, if they do harm


def explain(run: Run, error: dict) -> None:
    """Raise what an error of the file under test means for the learner."""
    name, line = run.kata.launcher, error.get("line")
    where, kind = error["where"], error.get("type", "")
    text = f"{kind}: {error.get('message', '')}".strip().rstrip(":")
    asserted = kind == "AssertionError" and where != "kernel" and "cuda" in run.outline.line(line)
    said = ("not compiled with CUDA", "NVIDIA driver", "No CUDA GPUs", "No HIP GPUs")
    no_card = asserted or any(words in text for words in said)
    if no_card and run.lane in ("trace", "compile"):
        text += ". Here the tensors are on the CPU: write device=x.device, and leave out "
        text += "assertions about the device"
    if where == "limit":
        raise Unusable(f"{name} is not judged to its end: {error['message']}", "robust")
    if where == "import":
        raise Unusable(f"the file does not import. {text}", "robust", line)
    if "missing" in error:
        name, found = error["missing"], ", ".join(error["defined"]) or "nothing"
        if error.get("found"):
            raise Unusable(f"{name} is no function but of type {error['found']}", "robust")
        raise Unusable(f"the file has no function {name}(...); it defines {found}", "robust")
    if where == "tampering":
        names = ", ".join(error["names"]) or "the grader"
        raise Unusable(
            f"the file replaces {names} while it is judged. No kernel needs that, and nothing "
            "else about it can be judged",
            "robust",
        )
    if where == "grader":
        raise RuntimeError(f"the worker fails ({run.label}): {text}")
    if where == "result":
        raise Wrong(f"what {name} returns cannot be read: {text} ({run.label})", "robust")
    if error.get("loading"):
        how = "its import does not end" if where == "hang" else error["message"]
        raise Unusable(f"the file does not import: {how}", "robust", line)
    if where == "hang":
        much = "far too much work"
        if run.lane == "compile":
            much = "too much to compile (many configs, blocks too large for so few warps)"
        many, launched = _many_programs(run)
        if many:
            raise Wrong(f"no answer in time ({run.label}): {many}", "grid", launched or line)
        text = f"no answer in time ({run.label}): a loop that never ends, or {much}?"
        raise Wrong(text, "robust", line)
    if where == "crash":
        if error.get("attack"):
            raise Unusable(f"the file {error['message']}", "robust")
        end = "had to be ended" if error.get("alive") else "died"
        raise Wrong(
            f"the process that ran {name} {end} ({run.label}): {error['message']}", "robust"
        )
    if where == "no-card":
        raise NotJudged(f"the card cannot be used: {error['message']}")
    if where == "card":
        raise Wrong(
            f"the card stops {name} ({run.label}): {error['message']}. {card_text(text)}",
            "robust",
            line,
        )
    if "cpu tensor" in text:
        text += ". Allocate where the inputs are: device=x.device, or torch.empty_like(x)"
    if "[CUDA]: invalid argument" in text:
        text += ". A grid's second and third axis hold 65,535 programs at most"
    if "grid_idx" in text:
        raise Wrong(
            "a kernel is called like a function. It is launched with its grid in square "
            "brackets: kernel[grid](...)",
            "grid",
            line,
        )
    if kind == "AssertionError" and where == "kernel" and not error.get("language"):
        raise Wrong(f"the kernel stops itself: {error['message']} ({run.label})", "robust", line)
    beyond = kind == "NotImplementedError" and "compile" not in run.evidence.lanes_on
    if (
        where == "kernel"
        and run.lane == "trace"
        and not error.get("language")
        and (beyond or run.evidence.compiler_accepts(run))
    ):
        raise NotJudged(
            f"Triton's interpreter cannot run line {line} ({text}), the real compiler accepts "
            "it: only a GPU can judge this"
        )
    place = "the kernel" if where == "kernel" else f"{name}({run.signature})"
    text, cause, line = reason(run, error, text)
    raise Stops(f"{place} raises {text}", cause, line, run.label)


def reason(run: Run, error: dict, text: str = "") -> tuple[str, str, int | None]:
    """What an exception means: in words, the concept, the line to mend.

    Some slips raise far from where they are made, and only the whole text tells where that is.
    `text`: type and message of the exception, where they were added to.
    """
    kind, line = error.get("type", ""), error.get("line")
    text = text or f"{kind}: {error.get('message', '')}".strip().rstrip(":")
    if hints.CONFIGS in text:
        return text, "autotune", run.outline.configs() or line
    if re.search(hints.MISNAMED, text):
        misnamed = run.outline.misnamed(*_config_at_hand(run))
        if misnamed:
            return f"{kind}: {misnamed}", "autotune", run.outline.configs() or line
    if hints.POWER in text:
        _, names = _config_at_hand(run) or ("", [])
        if run.outline.sized_by(names, line):
            return text, "autotune", run.outline.configs() or line
    unknown = re.search(r"NameError: name '(\w+)' is not defined", text)
    if unknown and error.get("where") != "kernel":
        meant = run.outline.unknown(unknown[1], line)
        text = f"NameError: {meant}" if meant else text
    return text, _cause_of(text), line


def _config_at_hand(run: Run) -> tuple[str, list[str]] | tuple[()]:
    """The kernel and the names that this call's config sets, () where there is no tuner."""
    try:  # facts beside an error have not been looked through
        tuner = run.facts["tuners"][0]
        configs = tuner["configs"]
        names = configs[min(run.config or 0, len(configs) - 1)]["kwargs"]
        return str(tuner["kernel"]), [str(name)[:80] for name in names][:30]
    except (KeyError, IndexError, TypeError):
        return ()


def _many_programs(run: Run) -> tuple[str, int | None]:
    """What to say of a call that does not end, if it has far too many programs, and the line.

    Either the grid has more of them than there are blocks, or the blocks are too small.
    """
    try:  # facts beside an error have not been looked through
        launch = run.facts["launches"][-1]
        programs, block = int(launch["programs"]), launch["block"]
        lanes = math.prod(block) if block else 0
        needed = run.programs_needed({"block": block if lanes > 1 else []})
        usual = run.programs_needed({"block": []})
        own = run.programs_needed({"block": block}) if lanes else 0
        grid, line = grid_text(launch), run.outline.launches(str(launch["kernel"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError):
        return "", None
    if run.lane != "trace" or programs < CROWD * max(usual, 1):
        return "", None
    if programs <= own:
        few = math.prod(run.kata.usual_block)
        return (
            f"the grid {grid} starts {plural(programs, 'program')}, each with a block of "
            f"{plural(lanes, 'element')}. {usual:,} with {few:,} would do: make the block larger",
            line,
        )
    return (
        f"the grid {grid} starts {plural(programs, 'program')}, where {needed:,} would do, one "
        "a block. A grid counts blocks, not elements",
        line,
    )


def card_text(text: str) -> str:
    """What to make of an error that costs the card's context."""
    if "misaligned" in text:
        return "An address is not a multiple of its element's size: are offsets counted in bytes?"
    return "Some lane reads or writes far outside its tensor: look at offsets and mask"


def _cause_of(text: str) -> str:
    """The concept behind an exception's text, where the text tells."""
    lower = text.lower()
    if "grid" in lower:
        return "grid"
    return "robust"
