"""What a kernel did to memory, access by access: the trace lane's record. Worker side.

`interpreter.install` calls `access` for every load, store and atomic before it happens. Lanes that
would leave their tensor are noted and switched off, so that nothing is corrupted and the rest of
the kernel still shows what it does.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

import numpy as np

from . import hints
from .chips import grid_fault
from .memory import Buffer, Memory

# A launch is cut short after so many idle programs in a row or, once a program has done something,
# after so many lanes of theirs; there must be at least FEWEST_IDLE, and more than programs that did
# something.
MOST_IDLE, MOST_IDLE_LANES, FEWEST_IDLE = 2000, 1 << 18, 16

MOST_SAMPLED = 4000  # accesses, after which a launch of which a sample was asked for is given up

SEVERAL = -2  # in place of a program's number


def waiting_lines(source: bytes) -> set[int]:
    """Lines of a file with an atomic (or a load) whose result decides how the kernel goes on.

    That is how programs wait for each other: they spin on a lock, or the last one to arrive goes on
    alone. An atomic whose result nobody looks at keeps nobody waiting. A loop may spin on a plain
    load too, of what atomics change.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    lines: set[int] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = list(ast.walk(function))
        tests: list[tuple[ast.AST, bool]] = []  # what decides, and whether it is a loop's
        for node in nodes:
            if isinstance(node, (ast.While, ast.If, ast.IfExp)):
                tests.append((node.test, isinstance(node, ast.While)))
            elif isinstance(node, ast.Return) and node.value is not None:
                tests.append((node.value, False))  # the caller may look at it
        seen: set[str] = set()
        while tests:
            test, loop = tests.pop()
            for node in ast.walk(test):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    if name.startswith("atomic_") or (loop and name == "load"):
                        lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
                elif isinstance(node, ast.Name) and (node.id + "*" * loop) not in seen:
                    seen.add(node.id + "*" * loop)
                    for other in nodes:
                        targets: list[ast.expr]
                        if isinstance(other, ast.Assign):
                            targets = other.targets
                        elif isinstance(other, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
                            targets = [other.target]
                        else:
                            continue
                        names = {
                            n.id
                            for target in targets
                            for n in ast.walk(target)
                            if isinstance(n, ast.Name)
                        }
                        if node.id in names and other.value is not None:
                            tests.append((other.value, loop))
    return lines


def _alike(at: np.ndarray, values, itemsize: int) -> bool:
    """Whether lanes that store to the same element (numbers of elements, `at`) store the same."""
    if values is None or len(values) != len(at):
        return False
    order = np.argsort(at, kind="stable")
    bits = np.ascontiguousarray(values).view(np.dtype(f"u{itemsize}"))[order]
    return not bool(((bits[1:] != bits[:-1]) & (np.diff(at[order]) == 0)).any())


class Kept:
    """Accesses kept lane by lane, up to so many lanes: what a picture is made of (see `show`)."""

    def __init__(self, room: int):
        self.room, self.whole = room, True
        self.accesses: list[tuple[dict, Buffer]] = []
        self.views: list[tuple[dict, Buffer]] = []  # tensors as the launches were given them
        self.places: list[np.ndarray] = []  # of each access: element numbers in the buffer
        self.masks: list[np.ndarray] = []

    def add(self, fact: dict, buffer: Buffer, addresses: np.ndarray, mask: np.ndarray) -> None:
        """Keep one access; what no longer fits is left out, with everything after it."""
        self.room -= addresses.size
        if self.room < 0:
            self.whole = False
            return
        self.accesses.append((fact | {"shape": list(addresses.shape)}, buffer))
        bytes_in: np.ndarray = addresses.reshape(-1).astype(np.int64) - buffer.start
        self.places.append(bytes_in // buffer.itemsize)
        self.masks.append(mask.reshape(-1).astype(np.uint8))

    def view(self, launch: int, name: str, tensor, buffer: Buffer) -> None:
        """Note how a tensor lies in its buffer, in elements of its own size."""
        start = tensor.untyped_storage().data_ptr() - buffer.start
        fact = {
            "launch": launch,
            "name": name,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "offset": start // tensor.element_size() + tensor.storage_offset(),
        }
        self.views.append((fact, buffer))


class EndOfLaunch(BaseException):
    """Ends a launch early; not an Exception, so that the interpreter lets it through."""


def as_it_lies(addresses: np.ndarray) -> list[int]:
    """The shape of a tile, the axis first along which its elements lie farther apart in memory.

    That is [rows, columns] of a matrix, also where the kernel holds the tile's transpose.
    """
    shape = list(addresses.shape)
    if len(shape) == 2 and min(shape) > 1:
        first, down, right = (int(addresses[at]) for at in ((0, 0), (1, 0), (0, 1)))
        if 0 < abs(down - first) < abs(right - first):
            shape.reverse()
    return shape


class Recorder:
    """The record of one call of a launcher; `facts()` is its JSON form."""

    def __init__(self, remark: Callable[[str], None] = lambda text: None) -> None:
        self.remark: Callable[[str], None] = lambda text: None
        self.guard: Callable[[], object] | None = None  # called before every launch
        self.source: bytes = b""  # of the file under test
        self._waits: set[int] | None = None  # see `waiting_lines`
        self.reset(Memory())
        self.remark = remark  # tells the judge at once what cannot be taken back later

    def reset(
        self,
        memory: Memory,
        grid_override=None,
        sample: int | None = None,
        keep: int = 0,
        instead: bool = False,
    ) -> None:
        """Forget everything and record into `memory` from now on.

        `grid_override`: a grid to launch instead of the kernel's own unless that has more programs.
        `sample`: how many programs of each launch run, the first ones and then the last; None for all.
        `keep`: how many lanes are kept one by one, for a picture (see `kept`).
        `instead`: the given grid in place of one that has more programs, and of no other.
        """
        self.memory = memory
        self._kept = Kept(keep) if keep else None
        self.launches: list[dict] = []
        self.sites: dict[tuple, dict] = {}  # (line, operation) -> lanes, active lanes
        self.outside: dict[tuple, dict] = {}  # (line, operation, buffer, side) -> event
        self.hazards: dict[tuple, dict] = {}  # (kind, line, buffer) -> event
        self.logic: set[int] = set()  # lines with `and` or `or` between blocks
        self.grid_override, self.instead = grid_override, instead
        self.sample = sample
        self.in_kernel = False
        self.program = (0, 0, 0)
        self._active = True
        self._number = 0
        self._launch: dict = {}  # the launch that is running
        self.remark("reset")

    # ---- launches and programs ---------------------------------------------------------------

    def grid_for(self, grid) -> tuple[int, ...]:
        """The grid to run, as three whole numbers; raises TypeError for anything else."""
        grid = hints.grid_sizes(grid)
        fault = grid_fault(grid)
        if fault:
            raise TypeError(fault)
        grid = grid + (1,) * (3 - len(grid))
        wanted = self.grid_override
        if wanted is not None and (math.prod(grid) > math.prod(wanted)) == self.instead:
            grid = tuple(wanted) + (1,) * (3 - len(wanted))
        return grid

    def begin_launch(
        self, kernel: str, grid: tuple, arguments: dict, defined: int | None = None
    ) -> None:
        """A launch begins. `defined`: the line that its kernel begins at."""
        if self.guard is not None:
            self.guard()
        self.check_shadows()
        for name, value in arguments.items():
            self._name(name, getattr(value, "base", value))
        if self._kept is not None:
            self._keep_views(arguments)
        for buffer in self.memory.buffers:
            buffer.writer.fill(-1)
            buffer.reader = None
        self._launch = {
            "kernel": kernel,
            "defined": defined,
            "grid": list(grid),
            "programs": math.prod(grid),
            "ran": 0,  # programs that ran
            "cut": False,  # whether the last of them was stopped
            "idle": 0,
            "atomics": 0,
            "most": {},  # buffer -> active store lanes of the busiest program
            "widest": {},  # the same, masked lanes too
            "block": [],  # shape of the largest store, see `as_it_lies`
            "loads": {},  # buffer -> shape of its largest load
            "lines": {},  # buffer -> line of its latest store
            "reach": {},  # buffer -> elements between the ends of a load, or its active lanes if fewer
            "gathered": [],  # of a sample, see `_gather`
            "stored": [],  # likewise: buffer -> active store lanes of each of the first programs
        }
        self.launches.append(self._launch)
        self._touched: dict[Buffer, np.ndarray] = {}  # the elements that count in `_gather`
        self._first = True  # has this program stored nothing yet?
        self._active = True
        self._waited = False  # has this program waited for others?
        self._atomic: set[int] = set()  # buffers that atomics of this launch changed
        self._number = -1
        self._program_lanes: dict[str, int] = {}  # active store lanes of this program by buffer
        self._program_widths: dict[str, int] = {}  # the same, masked lanes too
        self._accesses = 0
        self._lanes = 0  # of all accesses so far
        self._idle_now = self._idle_since = 0  # idle programs in a row, and the lanes before them

    def begin_program(self, program: tuple) -> tuple:
        """The next program to run: this one or, at the end of a sample, the last of the grid.

        Raises EndOfLaunch behind a sample, and when many programs have done nothing.
        """
        self._finish_program()
        if self.sample is not None:
            if self._number + 1 > self.sample:
                self._active = True
                raise EndOfLaunch
            # As a card starts them, the first axis running fastest; the interpreter's order differs.
            grid, number = self._launch["grid"], self._number + 1
            number = number if number < self.sample else self._launch["programs"] - 1
            rest = number // grid[0]
            program = (number % grid[0], rest % grid[1], rest // grid[1])
        idle, active = self._idle_now, self._number + 1 - self._launch["idle"]
        lanes = self._lanes - self._idle_since
        if idle > max(FEWEST_IDLE, active) and (
            idle > MOST_IDLE or (active and lanes > MOST_IDLE_LANES)
        ):
            # Tracing the rest would take minutes and show nothing new: count it as idle.
            self._launch["idle"] += self._launch["programs"] - self._number - 1
            self._active = True
            raise EndOfLaunch
        self.program = program
        self._number += 1
        self._active = self._waited = False
        self._first = True
        self.in_kernel = True
        return program

    def end_launch(self) -> None:
        self.in_kernel = False
        self._finish_program()
        self._active = True
        self.program = (0, 0, 0)
        for buffer in self.memory.buffers:
            if buffer.stored_bytes:
                buffer.resync()

    def _finish_program(self) -> None:
        if not self._launch or self._number < 0:
            return
        self._launch["ran"] = self._number + 1
        if self.sample is not None and self._number < self.sample:
            self._gather()
            self._launch["stored"].append(dict(self._program_lanes))
        if not self._active:
            self._launch["idle"] += 1
            self._idle_now += 1
        else:
            self._idle_now, self._idle_since = 0, self._lanes
        for key, counts in (("most", self._program_lanes), ("widest", self._program_widths)):
            best = self._launch[key]
            for name, lanes in counts.items():
                best[name] = max(best.get(name, 0), lanes)
            counts.clear()

    def _gather(self) -> None:
        """Note how many elements of each buffer this program and those before it need together.

        What counts is what each loads before its first store: of a program that works through
        several tiles, the first. So it shows whether neighbours share what they load.
        """
        counts = {b.name: int(np.count_nonzero(flags)) for b, flags in self._touched.items()}
        self._launch["gathered"].append(counts)

    def _name(self, name: str, value) -> None:
        if not hasattr(value, "untyped_storage"):
            return
        plain = name.removesuffix("_ptr").removesuffix("_desc") or name
        # The kernel's x_ptr may be another tensor than the input x: arguments in a wrong order, say.
        taken = any(b.name == plain and b.kind == "input" for b in self.memory.buffers)
        buffer = self.memory.known(value)
        if buffer is None:
            self.memory.adopt(value, f"the tensor at {name}" if taken else plain)
        elif not buffer.name:
            buffer.name = f"the new tensor at {name}" if taken else plain

    def _keep_views(self, arguments: dict) -> None:
        for name, value in arguments.items():
            tensor = getattr(value, "base", value)
            buffer = self.memory.known(tensor) if hasattr(tensor, "untyped_storage") else None
            if buffer is not None and self._kept is not None:
                self._kept.view(len(self.launches), name, tensor, buffer)

    def _keep(self, op, line, buffer: Buffer, addresses, mask) -> None:
        """Keep this access lane by lane, if that was asked for."""
        if self._kept is not None:
            launch, program = len(self.launches) - 1, list(self.program)
            fact = {"launch": launch, "program": program, "line": line, "op": op}
            self._kept.add(fact, buffer, addresses, mask)

    def check_shadows(self) -> None:
        """Note every buffer that changed while no kernel ran."""
        for buffer in self.memory.buffers:
            changed = buffer.tampered()
            if changed:
                self._hazard("changed-outside", 0, buffer, changed)
                buffer.resync()

    # ---- accesses ----------------------------------------------------------------------------

    def access(self, op, addresses, mask, full, itemsize, line, data=None):
        """Record one access of a block of lanes; returns the mask of lanes that may go ahead.

        `addresses` uint64 byte addresses and `mask` bool, of one shape; `full`: all lanes are active;
        `data` the values of a store. The very same mask object comes back when every active lane is
        in bounds.
        """
        self._accesses += 1
        if self.sample is not None and self._accesses > MOST_SAMPLED:
            self._launch["cut"] = True
            raise EndOfLaunch
        flat, lanes = addresses.reshape(-1), mask.reshape(-1)
        picked = flat if full else flat[lanes]
        site = self.sites.get((line, op))
        if site is None:
            site = self.sites[(line, op)] = {"lanes": 0, "active": 0}
        site["lanes"] += flat.size
        self._lanes += flat.size
        site["active"] += picked.size
        if picked.size == 0:
            nearest = self._nearest(flat)
            if op == "store":
                self._masked_off(flat, nearest, itemsize)
                self._count_store(nearest, addresses)
            elif op == "load":
                self._skipped(flat, nearest, itemsize)
            if nearest is not None:
                self._keep(op, line, nearest, addresses, mask)
            return mask
        low, high = int(picked.min()), int(picked.max())
        buffer = self.memory.find(low)
        if buffer is None or low < buffer.start or high + itemsize > buffer.end:
            return self._partly_outside(op, addresses, mask, itemsize, line, data)
        self._keep(op, line, buffer, addresses, mask)
        if op == "store":
            if not full:
                self._masked_off(flat[~lanes], buffer, itemsize)
            self._count_store(buffer, addresses)
            values = None if data is None else (data.reshape(-1) if full else data[mask])
            self._stored(buffer, picked, values, itemsize, line, (high - low) // itemsize + 1)
        else:
            shapes = self._launch["loads"]
            if flat.size > math.prod(shapes.get(buffer.name, (0,))):
                shapes[buffer.name] = list(addresses.shape)
            reach = self._launch["reach"]
            covered = min(picked.size, (high - low) // itemsize + 1)
            reach[buffer.name] = max(reach.get(buffer.name, 0), covered)
            if op == "load" and not full:
                self._skipped(flat[~lanes], buffer, itemsize)
            if op == "atomic":  # it stores as well
                self._count_store(buffer, addresses)
            self._loaded(buffer, picked, itemsize, line, op)
        return mask

    def padded(self, line: int, other) -> None:
        """Note what the lanes of a load hold that are off: a number as text, or "" for nothing at all."""
        site = self.sites[(line, "load")]
        if "other" not in site:
            values = np.zeros(0) if other is None else np.asarray(other).reshape(-1)
            alike = bool((values == values[:1]).all())
            site["other"] = f"{values[0]:g}" if alike and values.size else "" if alike else None

    def _loaded(self, buffer: Buffer, picked, itemsize, line, op) -> None:
        at = buffer.places_of(picked, itemsize)
        buffer.read[at] = True
        buffer.loaded_bytes += picked.size * itemsize
        if self.sample is not None and self._first:
            flags = self._touched.setdefault(buffer, np.zeros(buffer.elements, bool))
            flags[at] = True
        if buffer.kind == "empty":
            unwritten = int(np.count_nonzero(~buffer.written[at]))
            if unwritten:
                self._hazard("uninitialised", line, buffer, unwritten)
        if op == "atomic":
            self._active = True
            self._launch["atomics"] += 1
            self._atomic.add(id(buffer))
            self._waited = self._waited or self._waits_at(line)
            if buffer.stored_bytes:  # before or after another program's plain store?
                self._race(buffer, buffer.writer[at], line)
            if buffer.kind != "kept":  # what an earlier call left there is still part of it
                buffer.written[at] = True
            buffer.stored_bytes += picked.size * itemsize
            return
        if id(buffer) in self._atomic and not self._waited:
            self._waited = self._waits_at(line)
        if buffer.kind == "foreign":
            self._hazard("foreign-read", line, buffer, picked.size)
        elif buffer.kind == "kept":
            stale = buffer.stale(at)
            if stale:
                self._hazard("foreign-read", line, buffer, stale)
        if buffer.stored_bytes:
            self._race(buffer, buffer.writer[at], line)
        if buffer.kind != "input" or buffer.updated:
            if buffer.reader is None:
                buffer.reader = np.full(buffer.elements, -1, np.int32)
            before = buffer.reader[at]
            alone = (before == -1) | (before == self._number)
            buffer.reader[at] = np.where(alone, self._number, SEVERAL)

    def _race(self, buffer: Buffer, programs, line) -> None:
        """Note elements that one program reads and another writes, in whichever order they ran.

        A program that has waited for others, by means of atomics, may know what it does.
        """
        racing = int(np.count_nonzero((programs != -1) & (programs != self._number)))
        if racing and not self._waited:
            self._hazard("race", line, buffer, racing)

    def _waits_at(self, line: int) -> bool:
        if self._waits is None:
            self._waits = waiting_lines(self.source)
        return line in self._waits

    def _stored(self, buffer: Buffer, picked, values, itemsize, line, span) -> None:
        self._active = True
        self._first = False
        lanes = self._program_lanes
        lanes[buffer.name] = lanes.get(buffer.name, 0) + picked.size
        self._launch["lines"][buffer.name] = line
        at = buffer.places_of(picked, itemsize)
        writers = buffer.writer[at]
        others = (writers >= 0) & (writers != self._number)
        if others.any():
            buffer.twice[at[others]] = True
            if values is not None and itemsize == buffer.itemsize and not self._waited:
                unsigned: np.dtype = np.dtype(f"u{itemsize}")
                old = buffer.raw.view(unsigned)[at[others]]
                new = np.ascontiguousarray(values[others]).view(unsigned)
                buffer.conflicts += int(np.count_nonzero(old != new))
        if span < picked.size and not _alike(at, values, itemsize):
            self._hazard("collision", line, buffer, picked.size - span)
        if buffer.reader is not None:
            self._race(buffer, buffer.reader[at], line)
        buffer.writer[at] = self._number
        buffer.written[at] = True
        buffer.stored_bytes += picked.size * itemsize

    def _count_store(self, buffer: Buffer | None, addresses) -> None:
        if buffer is None:
            return
        widths = self._program_widths
        widths[buffer.name] = widths.get(buffer.name, 0) + addresses.size
        if addresses.size > math.prod(self._launch["block"] or [0]):
            self._launch["block"] = as_it_lies(addresses)

    def _masked_off(self, addresses, buffer: Buffer | None, itemsize) -> None:
        """Note where masked-off store lanes pointed: a mask that drops elements shows there."""
        if buffer is None:
            return
        inside = (addresses >= buffer.start) & (addresses <= buffer.end - itemsize)
        buffer.masked_off[buffer.index(addresses[inside])] = True

    def _skipped(self, addresses, buffer: Buffer | None, itemsize) -> None:
        """Note where masked-off load lanes pointed, in what the launcher was given."""
        if buffer is None or buffer.kind != "input":
            return
        inside = (addresses >= buffer.start) & (addresses <= buffer.end - itemsize)
        if inside.any():
            if buffer.skipped is None:
                buffer.skipped = np.zeros(buffer.elements, bool)
            buffer.skipped[buffer.index(addresses[inside])] = True

    def _nearest(self, addresses) -> Buffer | None:
        return self.memory.find(int(addresses.min())) if addresses.size else None

    def _nearest_to(self, address: int) -> Buffer:
        """The tensor that an address outside of all was meant for."""
        return self.memory.find(address) or self.memory.nowhere

    def _partly_outside(self, op, addresses, mask, itemsize, line, data):
        """Some active lanes leave every tensor: note them, and let the other lanes go ahead."""
        inside = np.zeros(addresses.shape, bool)
        shares = []
        for buffer in self.memory.buffers:
            here = mask & (addresses >= buffer.start) & (addresses <= buffer.end - itemsize)
            count = int(np.count_nonzero(here))
            if count:
                shares.append((count, buffer))
                inside |= here
        bad = addresses[mask & ~inside]
        # The tensor these lanes were meant for: the one their block starts in, or nearest to.
        first = int(addresses[mask].min())
        owner = max(shares, key=lambda s: s[0])[1] if shares else self._nearest_to(first)
        self._keep(op, line, owner, addresses, mask)
        if bad.size:
            for side in ("after", "before"):
                lanes = bad >= owner.end - itemsize + 1 if side == "after" else bad < owner.start
                count = int(np.count_nonzero(lanes))
                if count:
                    far = bad[lanes]
                    distance = (
                        int(far.max()) + itemsize - owner.end
                        if side == "after"
                        else owner.start - int(far.min())
                    )
                    self._outside(op, line, owner, side, count, distance // itemsize)
        for count, buffer in shares:
            here = mask & (addresses >= buffer.start) & (addresses <= buffer.end - itemsize)
            if op == "store":
                self._count_store(buffer, addresses)
                values = None if data is None else data[here]
                self._stored(buffer, addresses[here], values, itemsize, line, count)
            else:
                self._loaded(buffer, addresses[here], itemsize, line, op)
        if op == "store" and not shares:
            self._count_store(owner, addresses)
        return inside

    def _outside(self, op, line, buffer, side, count, distance) -> None:
        key = (line, op, id(buffer), side)
        event = self.outside.get(key)
        if event is None:
            self.remark("outside")
            event = self.outside[key] = {
                "line": line,
                "op": op,
                "buffer": buffer,
                "side": side,
                "program": list(self.program),
                "count": count,
                "total": 0,
                "programs": 0,
                "distance": 0,
            }
            event["_last"] = None
        elif event["_last"] == self._number and event["programs"] == 1:
            event["count"] += count
        event["total"] += count
        event["distance"] = max(event["distance"], distance)
        if event["_last"] != self._number:
            event["programs"] += 1
            event["_last"] = self._number

    def _hazard(self, kind, line, buffer, count) -> None:
        if (kind, line, id(buffer)) not in self.hazards:
            self.remark("hazards")
        event = self.hazards.setdefault(
            (kind, line, id(buffer)),
            {
                "kind": kind,
                "line": line,
                "buffer": buffer,
                "program": list(self.program),
                "count": 0,
            },
        )
        event["count"] += count

    # ---- the JSON form -----------------------------------------------------------------------

    def kept(self) -> tuple[dict, list[bytes]]:
        """What was kept lane by lane, beside `facts`: its JSON form and two blobs; or nothing.

        The blobs hold, access after access, each lane's element number in its buffer (int64; it
        may lie outside) and whether the lane is active (uint8). Buffers go by their number in
        `facts()["buffers"]`.
        """
        if self._kept is None:
            return {}, []
        number = {id(buffer): at for at, buffer in enumerate(self.memory.buffers)}

        def plain(pairs):
            return [fact | {"buffer": number[id(b)]} for fact, b in pairs if id(b) in number]

        kept = {"accesses": plain(self._kept.accesses), "views": plain(self._kept.views)}
        blobs = [
            np.concatenate([np.empty(0, np.int64), *self._kept.places]).tobytes(),
            np.concatenate([np.empty(0, np.uint8), *self._kept.masks]).tobytes(),
        ]
        return {"kept": kept | {"whole": self._kept.whole}}, blobs

    def facts(self) -> dict:
        """Everything recorded, as JSON-able values; buffers are named, sizes in elements."""

        def plain(event):
            out = {k: v for k, v in event.items() if k != "buffer" and not k.startswith("_")}
            buffer = event["buffer"]
            return out | {"buffer": buffer.name, "elements": buffer.elements}

        return {
            "launches": self.launches,
            "sites": [
                {"line": line, "op": op, **site} for (line, op), site in sorted(self.sites.items())
            ],
            "outside": [plain(e) for e in self.outside.values()],
            "hazards": [plain(e) for e in self.hazards.values()],
            "logic": sorted(self.logic),
            "buffers": [
                {
                    "name": b.name,
                    "kind": b.kind,
                    "elements": b.elements,
                    "itemsize": b.itemsize,
                    "read": int(np.count_nonzero(b.read)),
                    "written": int(np.count_nonzero(b.written)),
                    "twice": int(np.count_nonzero(b.twice)),
                    "conflicts": b.conflicts,
                    "overwritten": b.overwritten,
                    "dropped": b.dropped,
                    "loaded_bytes": b.loaded_bytes,
                    "stored_bytes": b.stored_bytes,
                }
                for b in self.memory.buffers
            ],
        }
