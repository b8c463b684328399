"""What a picture of a kernel at work shows, as plain data: the record behind `nox -s show-N`.

The trace lane runs one small call and keeps every lane (`Recorder.kept`); the compile lane adds what
each chip makes of the kernel. `collect` has both done and turns them into JSON-able data, which
`show` puts into a page. As ever the file under test is run by a worker alone, and what comes back
from there is looked at before it is believed.
"""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import chips, cost, sheets
from .answers import has
from .evidence import Evidence
from .grading import suite
from .judge import Nursery
from .kata import Case
from .progress import shown
from .reasons import NotJudged, Wrong
from .run import Run
from .words import are, got_and_want, outside_text, place, plural

MOST_LANES = 1 << 20  # that the worker keeps
MOST_CELLS = 1 << 15  # of one tensor; a larger example would be no picture any more
MOST_NUMBERS = 1 << 19  # of the page's lanes, as runs
MOST_ELEMENTS = 1 << 24  # of a workspace, beyond which nothing is drawn
MOST_WRONG = 300  # wrong elements that are shown with got and want

LANE = {"launch": int, "program": [int], "line": int, "op": str, "shape": [int], "buffer": int}
VIEW = {"launch": int, "name": str, "dtype": str, "shape": [int], "strides": [int], "offset": int}
KEPT = {"accesses": [LANE], "views": [VIEW | {"buffer": int}], "whole": bool}


# ---- one call, recorded ------------------------------------------------------------------------


def collect(kata: str, file: Path, nursery: Nursery, seed: str = "katas") -> dict:
    """The whole record of one file."""
    picture = Picture(suite(kata).KATA, file.resolve(), nursery, {"compile": True}, seed)
    try:
        run = picture.example()
        out = record(run, picture)
        out["chips"] = compiled(picture.compiled(), picture.kata.targets)
    finally:
        picture.close()
    number = int(kata[:2])
    return out | {"title": f"Kata {number}, {kata[3:]}", "number": number, "file": shown(file)}


class Picture(Evidence):
    """Evidence of one small call: a run with every lane kept, and the compiler's facts beside it."""

    def collectors(self) -> dict[str, Callable[[], list]]:
        """The compile lane has all chips at once; what is traced waits to be asked for."""
        return {"compile": self._all_chips}

    def _all_chips(self) -> list[dict]:
        child = self._child("compile")
        try:
            case = next(c for c in self.kata.cases if c.group == "compile" and not c.launcher)
            return [self._compile(child, case, list(self.kata.targets))]
        finally:
            child.stop()

    def example(self) -> Run:
        """The call to show. A kernel that does not even come through its first case shows that."""
        child = self._child("trace")
        try:
            probe = next(c for c in self.kata.cases if c.group == "probe")
            first = self._kept(child, probe.settled(self.kata.usual_block), 0)
            tuners = first.facts.get("tuners") or []
            self.configs = len(tuners[0]["configs"]) if tuners else 1
            if first.answer.error is not None:
                return first
            case = self.chosen(self._block(first), stored(first))
            if case.sizes == probe.sizes:
                return first
            return self._kept(child, case, 0)
        finally:
            child.stop()
            self.printed = child.printed

    def chosen(self, block: tuple[int, ...], lanes: int) -> Case:
        """The case to show: the kata's own, or the smallest ragged one of several programs.

        `lanes`: of the kernel's largest store. Tensors are to lie in one piece, and to be small
        enough to be looked at.
        """
        kata = self.kata
        stated = [Case("show", kata.show).settled(block)] if kata.show else []
        fit: list[tuple[int, int, Case]] = []
        for case in kata.cases:
            if "ragged" in case.group.split(", ") and not case.launcher:
                case = case.settled(block)
                size, result = self._cells(case)
                if 0 < size <= MOST_CELLS and result > (lanes or math.prod(block[:2])):
                    fit.append((size, len(fit), case))
        for case in stated:
            if 0 < self._cells(case)[0] <= MOST_CELLS:
                return case
        probe = next(c for c in kata.cases if c.group == "probe")
        return min(fit)[2] if fit else probe.settled(kata.usual_block)

    def _cells(self, case: Case) -> tuple[int, int]:
        """Elements of a call's largest tensor and of its first result; (0, 0) if one has gaps."""
        arguments = self.arguments(case)
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        if not all(tensor.is_contiguous() for tensor in tensors):
            return 0, 0
        results = [math.prod(shape) for shape, _ in self.kata.expected(arguments)]
        return max([tensor.numel() for tensor in tensors] + results), results[0]

    def _kept(self, child, case: Case, config: int) -> Run:
        return self._call(child, case, config, keep=MOST_LANES)


def stored(run: Run) -> int:
    """Lanes of the largest store; 0 for none."""
    launches = run.facts.get("launches") or []
    return max((math.prod(x["block"]) for x in launches if x["block"]), default=0)


# ---- the record --------------------------------------------------------------------------------


def record(run: Run, picture: Picture) -> dict:
    """All that the page shows, as JSON-able data."""
    source = picture.file.read_text(encoding="utf-8", errors="replace")
    lines = source.splitlines()
    kept, places, masks = lanes_of(run)
    out: dict[str, Any] = {
        "source": lines,
        "case": run.case.name,
        "config": config_text(run),
        "whole": kept["whole"],
    }
    notes: list[dict] = []
    broken = problem(run)
    tensors = tensors_of(run, kept)
    widen(tensors, kept, places, masks)
    marks: dict[int, dict[str, np.ndarray]] = {}
    if broken is not None:
        notes.append(broken)
    if run.answer.error is None:
        marks = marks_of(run, tensors, notes)
    wrong = bool(notes or run.facts.get("outside"))
    out["launches"] = launches(run, kept, places, masks, tensors, loops(source), wrong)
    twice(out["launches"], tensors)
    for number, tensor in tensors.items():
        found = marks.get(number, {}) | tensor.pop("marks")
        if "never" not in found and tensor["role"] == "result":
            found["never"] = tensor.pop("untouched")
        tensor.pop("untouched", None)
        tensor["never"] = int(found.get("never", np.zeros(1, bool)).sum())
        sheet = tensor.pop("sheet")
        tensor["marks"] = {
            name: sheets.runs(np.sort(sheet.slots_of(np.flatnonzero(flags))))
            for name, flags in found.items()
        }
        tensor["sheet"] = sheet.facts()
    order = {number: at for at, number in enumerate(tensors)}
    for launch in out["launches"]:
        for access in launch["accesses"]:
            access["tensor"] = order[access["tensor"]]
    out["tensors"] = list(tensors.values())
    out["notes"] = outside_notes(run)
    out["notes"] += astray_notes(out) + notes
    out["todo"] = first_todo(lines)
    out["written"] = any(a["op"] != "load" and a["active"] for a in every(out["launches"]))
    if not out["written"] and run.answer.error is None:
        out["notes"] = [n for n in out["notes"] if n["kind"] in ("outside", "astray", "broken")]
        text = "No element of the result is written yet."
        if out["todo"]:
            text += " Line {line} is the first to fill in ({concept}).".format(**out["todo"])
        out["notes"].append({"kind": "nothing", "text": text})
    if kept["accesses"] and not (
        kept["whole"] and not any(x.get("short") for x in out["launches"])
    ):
        text = "There is more than can be drawn: the picture shows the first loads and stores."
        out["notes"].append({"kind": "cut", "text": text})
    out["start"] = start(out)
    out["bytes"] = traffic(run)
    return out


def every(launches: Iterable[dict]) -> Iterable[dict]:
    return (access for launch in launches for access in launch["accesses"])


def lanes_of(run: Run) -> tuple[dict, list[np.ndarray], list[np.ndarray]]:
    """What the worker kept: facts, and for each access places and mask in the block's shape.

    Whatever makes no sense is treated as nothing kept.
    """
    nothing: dict = {"accesses": [], "views": [], "whole": False}
    kept: Any = run.facts.get("kept")
    buffers = run.facts.get("buffers")
    if not has(kept, KEPT) or not isinstance(buffers, list) or len(run.answer.blobs) < 2:
        return nothing, [], []
    every_place, every_mask = run.answer.blobs[-2:]
    facts = kept["accesses"] + kept["views"]
    if any(not 0 <= fact["buffer"] < len(buffers) for fact in facts):
        return nothing, [], []
    if any(buffers[fact["buffer"]]["elements"] > MOST_ELEMENTS for fact in facts):
        return nothing, [], []
    if any(len(a["program"]) != 3 or min(a["shape"], default=0) < 0 for a in kept["accesses"]):
        return nothing, [], []
    sizes = [math.prod(access["shape"]) for access in kept["accesses"]]
    if len(every_place) != 8 * sum(sizes) or len(every_mask) != sum(sizes):
        return nothing, [], []
    cuts = np.cumsum(sizes)[:-1]
    shapes = [access["shape"] for access in kept["accesses"]]
    places = np.split(np.frombuffer(every_place, np.int64), cuts) if sizes else []
    masks = np.split(np.frombuffer(every_mask, np.uint8) > 0, cuts) if sizes else []
    return (
        kept,
        [p.reshape(s) for p, s in zip(places, shapes, strict=True)],
        [m.reshape(s) for m, s in zip(masks, shapes, strict=True)],
    )


def problem(run: Run) -> dict | None:
    """What keeps the call from coming to its end, or from being the kernel's own work."""
    try:
        run.kernel_ran()
        for part in run.parts:
            run.got(part)
        run.inputs_unchanged()
    except Wrong as wrong:
        where = f"line {wrong.line}: " if wrong.line else ""
        return {"kind": "broken", "text": where + wrong.message, "line": wrong.line}
    except NotJudged as reason:
        return {"kind": "broken", "text": str(reason), "line": run.answer.facts["error"]["line"]}
    return None


def config_text(run: Run) -> str:
    """The autotuner's config that the call ran with, "" without one."""
    tuners = run.facts.get("tuners") or []
    if not tuners or not tuners[0]["configs"]:
        return ""
    config = tuners[0]["configs"][min(run.config or 0, len(tuners[0]["configs"]) - 1)]
    words = [f"{name}={value}" for name, value in config["kwargs"].items()]
    count = len(tuners[0]["configs"])
    return f"config {(run.config or 0) + 1} of {count}: {', '.join(map(str, words))}"


def tensors_of(run: Run, kept: dict) -> dict[int, dict]:
    """The tensors of the picture by their buffers' numbers, in the order of the kernel's arguments."""
    buffers = run.facts.get("buffers") or []
    touched = [f["buffer"] for f in kept["views"]] + [f["buffer"] for f in kept["accesses"]]
    inputs = dict(zip(run.kata.parameters, run.arguments, strict=False))
    results = {
        fact["storage"]: (part, fact)
        for part, fact in enumerate(run.facts.get("result") or [])
        if fact.get("storage")
    }
    out: dict[int, dict] = {}
    for number in dict.fromkeys(touched):
        buffer = buffers[number]
        views = [v for v in kept["views"] if v["buffer"] == number]
        view = max(views, key=lambda v: math.prod(v["shape"]), default=None)
        name, role = buffer["name"] or (view or {}).get("name", "?"), "work"
        shape: Iterable[int] = (buffer["elements"],)
        strides: Iterable[int] = (1,)
        offset, dtype = 0, view["dtype"] if view else ""
        if view is not None:
            shape, strides, offset = view["shape"], view["strides"], view["offset"]
        argument = inputs.get(name)
        if buffer["kind"] == "input" and isinstance(argument, torch.Tensor):
            role = "update" if name in run.kata.updates else "input"
            shape, strides = argument.shape, argument.stride()
            offset, dtype = argument.storage_offset(), str(argument.dtype).removeprefix("torch.")
        part = None
        if buffer["name"] in results:
            part, fact = results[buffer["name"]]
            role = "result" if role == "work" else role
            if math.prod(fact["shape"]) == math.prod(shape) and len(fact["strides"]) == len(
                fact["shape"]
            ):
                shape, strides, dtype = fact["shape"], fact["strides"], fact["dtype"]
        elif buffer["kind"] != "input" and not results:
            role = (
                "result"  # the call never came back: what it allocated is its result, as it seems
            )
        known = getattr(torch, dtype, None)
        wide = known.itemsize if isinstance(known, torch.dtype) else buffer["itemsize"]
        pieces = max(1, wide // max(1, buffer["itemsize"]))
        if not fits(shape, strides, offset, pieces, buffer["elements"]):
            shape, strides, offset, pieces = (buffer["elements"],), (1,), 0, 1
        steps = tuple(s * pieces for s in strides)
        sheet = sheets.Sheet(tuple(shape), steps, offset * pieces, buffer["elements"])
        out[number] = {
            "name": name,
            "role": role,
            "dtype": dtype,
            "shape": list(shape),
            "sheet": sheet,
            "part": part,
            "marks": {},
        }
    return out


def widen(tensors: dict[int, dict], kept: dict, places: list, masks: list) -> None:
    """Draw a workspace as flat memory where kernels use more of it than the view that was noted."""
    for fact, at, mask in zip(kept["accesses"], places, masks, strict=True):
        tensor = tensors[fact["buffer"]]
        sheet, met = tensor["sheet"], at[mask]
        met = met[(met >= 0) & (met < sheet.elements)]
        if tensor["role"] == "work" and (sheet.cell_at[met] < 0).any():
            tensor["shape"] = [sheet.elements]
            tensor["sheet"] = sheets.Sheet((sheet.elements,), (1,), 0, sheet.elements)


def fits(shape, strides, offset: int, pieces: int, elements: int) -> bool:
    """Whether a view lies inside its buffer, and is none of the odd ones that cannot be drawn."""
    if offset < 0 or any(s < 0 for s in strides) or not 0 < math.prod(shape) <= 1 << 22:
        return False
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return (last + 1) * pieces <= elements


def marks_of(run: Run, tensors: dict[int, dict], notes: list[dict]) -> dict[int, dict]:
    """Elements of the results that were never written, written twice, or hold a wrong number."""
    out: dict[int, dict[str, np.ndarray]] = {}
    for number, tensor in tensors.items():
        part = tensor["part"]
        if part is None or not usable(run, part, tensor["sheet"].cells):
            continue
        flags = run.coverage(part)
        never = ((flags & 1) == 0) & run.due(part)
        if run.facts["result"][part].get("kind") == "filled":
            # What torch.zeros has left there may be what belongs there.
            missed = run.mismatch(part)
            never &= torch.zeros_like(never) if missed is None else missed.wrong
        again = (flags & 4) > 0
        called = run.called(part) if run.kata.returns else tensor["name"]
        wrong = run.mismatch(part, written_only=True)
        off = wrong.wrong & ~never if wrong is not None else torch.zeros_like(never)
        out[number] = {
            "never": never.numpy().reshape(-1),
            "twice": again.numpy().reshape(-1),
            "wrong": off.numpy().reshape(-1),
        }
        size = f"of {plural(never.numel(), 'element')} of {called}"
        if bool(never.any()):
            text = f"{int(never.sum()):,} {size} {are(int(never.sum()))} never written"
            notes.append({"kind": "never", "text": text})
        if bool(again.any()):
            text = f"{int(again.sum()):,} {size} {are(int(again.sum()))} written more than once"
            notes.append({"kind": "twice", "text": text})
        if bool(off.any()) and wrong is not None:
            index, got, want = wrong.first(1)[0]
            shown = f"at {place(index)} {got_and_want(got, want)}"
            text = f"{int(off.sum()):,} {size} hold a wrong number: {shown}"
            notes.append({"kind": "wrong", "text": text})
            where = torch.nonzero(off.reshape(-1))[:MOST_WRONG, 0]
            pairs = wrong.got.reshape(-1)[where].tolist(), wrong.want.reshape(-1)[where].tolist()
            tensor["values"] = {
                int(cell): got_and_want(got, want)
                for cell, got, want in zip(where, *pairs, strict=True)
            }
    return out


def usable(run: Run, part: int, cells: int) -> bool:
    """Whether a result is one that can be held against the reference, and drawn cell by cell."""
    try:
        return run.got(part).numel() == cells
    except Wrong:
        return False


def launches(
    run: Run, kept: dict, places: list, masks: list, tensors: dict, inside: dict, wrong: bool
) -> list:
    """Every launch with its accesses; lays the tensors' sheets out on the way."""
    by_line: dict[tuple, list] = defaultdict(list)
    for fact, at, mask in zip(kept["accesses"], places, masks, strict=True):
        if mask.any():
            by_line[fact["launch"], fact["line"], fact["op"], fact["buffer"]].append(at)
    rows = {key: tensors[key[3]]["sheet"].by_rows(blocks) for key, blocks in by_line.items()}
    looks: dict[int, list] = defaultdict(list)
    all_looks = []
    for fact, at, mask in zip(kept["accesses"], places, masks, strict=True):
        key = fact["launch"], fact["line"], fact["op"], fact["buffer"]
        sheet = tensors[key[3]]["sheet"]
        look = sheet.look(at, mask, rows.get(key, True))
        if not wrong and (look.state == sheets.ASTRAY).any():
            look = sheet.look(at, mask, False)  # a kernel that is right may go on over an edge
        looks[key[3]].append(look)
        all_looks.append(look)
    for number, tensor in tensors.items():
        tensor["sheet"].lay_out(looks[number])
        tensor["untouched"] = np.ones(tensor["sheet"].cells, bool)
    out = []
    for number, launch in enumerate(run.facts.get("launches") or []):
        views = [v for v in kept["views"] if v["launch"] == number]
        out.append(
            {
                "kernel": launch["kernel"],
                "grid": [max(size, 1) for size in (*launch["grid"], 1, 1, 1)[:3]],
                "programs": launch["programs"],
                "ran": launch["ran"],
                "views": {v["name"]: v["shape"] for v in views},
                "accesses": [],
            }
        )
    room = MOST_NUMBERS
    turns = Turns(inside)
    for fact, look in zip(kept["accesses"], all_looks, strict=True):
        if not 0 <= fact["launch"] < len(out):
            continue
        sheet, grid = tensors[fact["buffer"]]["sheet"], out[fact["launch"]]["grid"]
        slots = sheet.slots(look)
        lanes = sheets.runs(slots, look.state)
        met = look.cell[(look.state == sheets.ASTRAY) & (look.cell >= 0)]
        landed = sheets.runs(sheet.slots_of(met))  # what lanes astray meet instead
        room -= len(lanes) + len(landed)
        if room < 0:
            out[fact["launch"]]["short"] = True
            continue
        x, y, z = fact["program"]
        program = x + grid[0] * (y + grid[1] * z)
        hit = look.cell[(look.state != sheets.MASKED) & (look.cell >= 0)]
        if fact["op"] != "load":
            tensors[fact["buffer"]]["untouched"][hit] = False
        bad = look.state >= sheets.OUTSIDE
        out[fact["launch"]]["accesses"].append(
            {
                "program": program,
                "line": fact["line"],
                "op": fact["op"],
                "tensor": fact["buffer"],
                "lanes": lanes,
                "count": look.state.size,
                "active": int((look.state != sheets.MASKED).sum()),
                "outside": int((look.state == sheets.OUTSIDE).sum()),
                "astray": int((look.state == sheets.ASTRAY).sum()),
                "unseen": int((bad & (slots < 0)).sum()),
                "landed": landed,
                "hit": hit,
                **turns.of(fact["launch"], program, fact["line"], fact["op"]),
            }
        )
    return out


class Turns:
    """Tells a loop's turns apart: a line that comes again within one loop begins the next turn."""

    def __init__(self, inside: dict[int, int]):
        self.inside = inside  # line -> first line of the loop around it
        self.now: dict[tuple, dict] = {}

    def of(self, launch: int, program: int, line: int, op: str) -> dict:
        """Moment of the program, loop and turn for its next access."""
        loop = self.inside.get(line, 0)
        now = self.now.get((launch, program))
        if now is None:
            now = self.now[launch, program] = {"moment": 0, "loop": loop, "turn": 1, "seen": set()}
        elif loop != now["loop"]:
            now.update(moment=now["moment"] + 1, loop=loop, turn=1, seen=set())
        elif (line, op) in now["seen"]:
            now.update(moment=now["moment"] + 1, turn=now["turn"] + 1, seen=set())
        now["seen"].add((line, op))
        return {key: now[key] for key in ("moment", "loop", "turn")}


def loops(source: str) -> dict[int, int]:
    """For each line inside a loop, the line at which its innermost loop begins."""
    try:
        nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.For, ast.While))]
    except (SyntaxError, ValueError):
        return {}
    out: dict[int, int] = {}
    for node in sorted(nodes, key=lambda n: n.lineno):  # inner loops begin later
        for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1):
            out[line] = node.lineno
    return out


def twice(launches: list[dict], tensors: dict[int, dict]) -> None:
    """Mark elements that one launch stores more than once, from what was kept of it.

    By two programs, or by two lanes of one store; a program that comes back to its own element in
    a later turn of a loop is within its rights. Each program learns how many it doubles.
    """
    for launch in launches:
        first: dict[int, np.ndarray] = {}
        for access in launch["accesses"]:
            hit = access.pop("hit")
            number = access["tensor"]
            if access["op"] != "store" or tensors[number]["role"] == "work":
                continue  # what programs pass to each other is theirs to order
            cells = tensors[number]["sheet"].cells
            writer = first.setdefault(number, np.full(cells, -1, np.int64))
            counts = np.bincount(hit, minlength=cells)
            again = (counts > 1) | ((counts > 0) & (writer >= 0) & (writer != access["program"]))
            access["again"] = int(again.sum())
            writer[(counts > 0) & (writer < 0)] = access["program"]
            marks = tensors[number]["marks"]
            marks["twice"] = marks.get("twice", np.zeros(cells, bool)) | again


# ---- words and numbers -------------------------------------------------------------------------


def outside_notes(run: Run) -> list[dict]:
    """Out-of-bounds accesses as the report words them."""
    return [
        {"kind": "outside", "text": outside_text(event), "line": event["line"]}
        for event in run.facts.get("outside") or []
    ]


def astray_notes(out: dict) -> list[dict]:
    """Lines whose lanes stick out over an edge onto other rows' elements.

    A line that leaves the tensor altogether, elsewhere, has been named for that.
    """
    named = {note["line"] for note in out["notes"] if note["kind"] == "outside"}
    found: dict[tuple, list[dict]] = defaultdict(list)
    for access in every(out["launches"]):
        if access["astray"] and access["line"] not in named:
            found[access["line"], access["op"], access["tensor"]].append(access)
    notes = []
    for (line, op, tensor), accesses in sorted(found.items()):
        verb = {"load": "tl.load reads", "store": "tl.store writes", "atomic": "tl.atomic changes"}
        name = out["tensors"][tensor]["name"]
        most = plural(max(access["astray"] for access in accesses), "element")
        programs = plural(len({access["program"] for access in accesses}), "program")
        text = f"line {line}: {verb[op]} {most} past an edge of {name}, which are another row's, "
        notes.append({"kind": "astray", "text": f"{text}in {programs}", "line": line})
    return notes


def first_todo(lines: list[str]) -> dict | None:
    """The first TODO of a stub: its line and concept."""
    for number, line in enumerate(lines, 1):
        found = re.search(r"#\s*TODO\((\w+)\)", line)
        if found:
            return {"line": number, "concept": found[1]}
    return None


def start(out: dict) -> dict:
    """Where the page opens: at the first mistake, or else at the program with the ragged edge."""
    scores: dict[tuple, int] = {}
    for number, launch in enumerate(out["launches"]):
        for access in launch["accesses"]:
            score = 16 * bool(access["outside"]) + 8 * bool(access.get("again"))
            score += 4 * bool(access["astray"]) + 2 * (0 < access["active"] < access["count"])
            score += access["active"] > 0
            key = number, access["program"]
            scores[key] = max(scores.get(key, 0), score)
    if not scores:
        return {"launch": 0, "program": 0}
    best = max(scores.values())
    # A mistake shows where it is made first; a ragged edge is at the end.
    pick = min if best >= 4 else max
    launch, program = pick(key for key, score in scores.items() if score == best)
    return {"launch": launch, "program": program}


def traffic(run: Run) -> dict | None:
    """Bytes moved, and the fewest that would do; None where nothing is known."""
    buffers = run.facts.get("buffers")
    if not buffers or run.answer.error is not None:
        return None
    least = run.kata.cost(*run.arguments)
    return {
        "loaded": sum(buffer["loaded_bytes"] for buffer in buffers),
        "stored": sum(buffer["stored_bytes"] for buffer in buffers),
        "least_loaded": least.read,
        "least_stored": least.written,
    }


def compiled(answers: list[dict], targets: tuple[str, ...]) -> dict:
    """What the compiler made of the kernel on each chip, in words: the rows of a table."""
    answer = answers[0] if answers else {}
    error = (answer.get("error") or {}).get("message", "")
    rows = []
    for target in targets:
        cards = ", ".join(card.name for card in chips.cards_of(target))
        row = {"chip": target, "cards": cards}
        built = [x for x in answer.get("launches") or [] if x["target"] == target]
        failed = next((x for x in built if not x["ok"]), None)
        if failed is not None:
            row["note"] = str((failed["error"] or {}).get("message", "it does not compile"))
        elif built:
            row |= resources(built)
        rows.append(row)
    return {"case": answer.get("case", ""), "error": error, "rows": rows}


def resources(built: list[dict]) -> dict:
    """Registers, spills, shared memory and occupancy; ranges over several kernels or configs."""
    fill = [x["occupancy"] for x in built if x["occupancy"]]
    worst = min(fill, key=lambda o: o["share"], default=None)
    return {
        "registers": cost.span([x["registers"] for x in built]),
        "spills": cost.span([x["spills"] for x in built]),
        "shared": cost.span([x["shared"] for x in built]),
        "occupancy": cost.span([round(100 * o["share"]) for o in fill], "%"),
        "limit": worst["limit"] if worst and worst["share"] < 1 else "",
        "cores": "yes" if any(x["tensor_cores"] for x in built) else "no",
        "note": next((x["fits_note"] for x in built if x["fits"] is False), ""),
    }
