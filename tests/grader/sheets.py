"""Where a picture draws the elements of a tensor, and the lanes that miss it. Plain geometry.

A `Sheet` is a tensor unfolded into slots: the last two dimensions are a panel (a matrix, or one row
wrapped at a fixed width), all further dimensions are panels side by side. Around each panel there
is room for lanes that stick out over its edge. A slot's number counts row by row through the sheet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

MASKED, INSIDE, OUTSIDE, ASTRAY = 0, 1, 2, 3  # what becomes of a lane, see `Sheet.look`

WIDEST = 130  # columns of a matrix; longer rows are wrapped
BROAD = 100  # columns of panels side by side
MOST_ROOM = (4, 72, 8, 128)  # slots above, below, left and right of a panel for lanes that miss it


@dataclass
class Look:
    """What one access does to a tensor, lane by lane: where it is drawn and what becomes of it."""

    panel: np.ndarray
    row: np.ndarray
    column: np.ndarray
    state: np.ndarray  # MASKED, INSIDE, OUTSIDE the memory, or ASTRAY: beyond a row, in another one
    cell: np.ndarray  # the element that the lane meets, -1 for none


@dataclass
class Sheet:
    """A tensor of this shape, lying in a buffer of so many elements as strides and offset say."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    elements: int
    width: int = 0  # slots in a row of the sheet, all room included
    height: int = 0
    corners: list[tuple[int, int]] = field(default_factory=list)  # first slot of each panel: x, y

    def __post_init__(self) -> None:
        kept = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1 and s]
        # What lies several times over in the same place (stride 0) is drawn once.
        self.dims = [n for n, _ in kept] or [1]
        self.steps = [s for _, s in kept] or [1]
        self.cells = math.prod(self.dims)
        self.wrapped = len(self.dims) == 1 or self.dims[-1] > WIDEST
        self.leading = self.dims[:-1] if self.wrapped else self.dims[:-2]
        self.panels = math.prod(self.leading)
        self.size = self.cells // max(self.panels, 1)  # cells of a panel
        self.columns = wrap(self.size) if self.wrapped else self.dims[-1]
        self.rows = -(-self.size // self.columns) if self.size else 0
        places: np.ndarray = np.full(self.dims, self.offset, np.int64)
        for axis, (n, step) in enumerate(zip(self.dims, self.steps, strict=True)):
            along: np.ndarray = np.arange(n, dtype=np.int64) * step
            places += along.reshape(-1, *[1] * (len(self.dims) - axis - 1))
        self.place_of = places.reshape(-1)
        inside = (self.place_of >= 0) & (self.place_of < self.elements)
        self.cell_at: np.ndarray = np.full(self.elements, -1, np.int64)
        self.cell_at[self.place_of[inside]] = np.flatnonzero(inside)
        # Coordinates can be read off an address where one dimension's steps span the next one's.
        self.order = sorted(range(len(self.dims)), key=lambda axis: -self.steps[axis])
        self.nested = all(
            self.steps[a] >= self.steps[b] * self.dims[b] for a, b in pairwise(self.order)
        )

    # ---- what lanes do -------------------------------------------------------------------------

    def landing(self, places: np.ndarray) -> tuple[np.ndarray, ...]:
        """Panel, row and column of what lies at these places of the buffer, and the cell there.

        Places before and behind the buffer continue the first and the last panel.
        """
        cell: np.ndarray = np.full(places.shape, -1, np.int64)
        known = (places >= 0) & (places < self.elements)
        cell[known] = self.cell_at[places[known]]
        index = np.where(cell >= 0, cell, 0)
        index = np.where(places >= self.elements, self.cells + places - self.elements, index)
        index = np.where(places < 0, places, index)
        panel: np.ndarray = np.clip(index // max(self.size, 1), 0, max(self.panels - 1, 0))
        within: np.ndarray = index - panel * self.size
        return panel, within // self.columns, within % self.columns, cell

    def affine(self, places: np.ndarray) -> tuple[int, list[tuple[int, int]]] | None:
        """A block's first place and, for each axis, (lanes, step); None if steps are uneven."""
        if places.size == 0:
            return None
        base = int(places.reshape(-1)[0])
        axes, model = [], np.full(places.shape, base, np.int64)
        for axis, lanes in enumerate(places.shape):
            at = [0] * places.ndim
            at[axis] = min(1, lanes - 1)
            step = int(places[tuple(at)]) - base
            axes.append((lanes, step))
            model += (np.arange(lanes) * step).reshape(-1, *[1] * (places.ndim - axis - 1))
        return (base, axes) if np.array_equal(model, places) else None

    def split(self, amount: int) -> list[int]:
        """A distance in the buffer as steps along each dimension, the largest steps first."""
        sign, rest, out = (-1 if amount < 0 else 1), abs(amount), [0] * len(self.dims)
        for axis in self.order:
            out[axis], rest = sign * (rest // self.steps[axis]), rest % self.steps[axis]
        return out

    def aimed(self, places: np.ndarray) -> np.ndarray | None:
        """Coordinates that the lanes of an even block are meant for, even beyond a row's end.

        One row for each dimension; None where they cannot be told.
        """
        block = self.affine(places) if self.nested and len(self.dims) > 1 else None
        if block is None:
            return None
        base, axes = block
        rest, first = base - self.offset, [0] * len(self.dims)
        for axis in self.order:
            first[axis], rest = rest // self.steps[axis], rest % self.steps[axis]
        coordinates = np.stack([np.full(places.shape, n, np.int64) for n in first])
        for axis, (lanes, step) in enumerate(axes):
            along = np.arange(lanes).reshape(-1, *[1] * (places.ndim - axis - 1))
            for dim, moved in enumerate(self.split(step)):
                coordinates[dim] += along * moved
        return coordinates.reshape(len(self.dims), -1)

    def by_rows(self, blocks: list[np.ndarray]) -> bool:
        """Whether the blocks of one line of a kernel mean rows, and not memory end to end.

        What reaches over the end of a row is astray if the kernel works row by row, and in its right
        place if it takes several dimensions for one. Then blocks lie side by side, whereas rows have
        blocks that would overlap: each other, or themselves, with an axis that steps from row to row.
        """
        evens = [self.affine(places) for places in blocks]
        if not self.nested or any(even is None for even in evens):
            return False
        bases = sorted({even[0] for even in evens if even is not None})
        apart = min((b - a for a, b in pairwise(bases)), default=0)
        reach = [0] * len(self.dims)  # lanes along each dimension
        for even in evens:
            for lanes, step in even[1] if even is not None else ():
                along = [dim for dim, moved in enumerate(self.split(step)) if moved]
                if lanes > 1 and len(along) > 1:
                    return False
                for dim in along if lanes > 1 else ():
                    reach[dim] = max(reach[dim], lanes * abs(self.split(step)[dim]))
        for outer, dim in pairwise(self.order):
            overlap = reach[outer] > 0 or 0 < apart < reach[dim] * self.steps[dim]
            if not reach[dim] or overlap:
                continue
            starts = [(base - self.offset) // self.steps[dim] % self.dims[dim] for base in bases]
            if reach[dim] >= 2 * self.dims[dim] or any(start % reach[dim] for start in starts):
                return False
        return True

    def look(self, places: np.ndarray, mask: np.ndarray, by_rows: bool) -> Look:
        """Where each lane of a block is drawn, and what becomes of it."""
        flat, active = places.reshape(-1), mask.reshape(-1)
        panel, row, column, cell = self.landing(flat)
        outside = (flat < 0) | (flat >= self.elements)
        astray = ~outside & (cell < 0)  # the gap between two rows
        aimed = self.aimed(places) if by_rows else None
        if aimed is not None:
            lead = aimed[: len(self.leading)]
            sizes = np.array(self.leading, np.int64).reshape(-1, 1)
            known = np.all((lead >= 0) & (lead < sizes), axis=0)
            number: np.ndarray = np.zeros(flat.shape, np.int64)
            for coordinate, n in zip(lead, self.leading, strict=True):
                number = number * n + np.clip(coordinate, 0, n - 1)
            if self.wrapped:
                along = aimed[-1]
                y: np.ndarray = along // self.columns
                x: np.ndarray = along % self.columns
                over = (along < 0) | (along >= self.dims[-1])
            else:
                y, x = aimed[-2], aimed[-1]
                over = (y < 0) | (y >= self.rows) | (x < 0) | (x >= self.columns)
            panel, row = np.where(known, number, panel), np.where(known, y, row)
            column = np.where(known, x, column)
            astray |= known & over & ~outside
        state = np.where(outside, OUTSIDE, np.where(astray, ASTRAY, INSIDE))
        return Look(panel, row, column, np.where(active, state, MASKED), cell)

    # ---- slots ---------------------------------------------------------------------------------

    def lay_out(self, looks: list[Look]) -> None:
        """Fix the panels' places in the sheet, with room for all that these looks need."""
        room = [0, 0, 0, 0]
        sides = self.rows, self.rows, self.columns, self.columns
        for look in looks:
            for masked in (True, False):
                some = (look.state == MASKED) == masked
                row, column = look.row[some], look.column[some]
                needed = (
                    -int(row.min(initial=0)),
                    int(row.max(initial=0)) - self.rows + 1,
                    -int(column.min(initial=0)),
                    int(column.max(initial=0)) - self.columns + 1,
                )
                for side, slots in enumerate(needed):
                    # Lanes that are off shall not take more room than the tensor itself.
                    most = min(MOST_ROOM[side], max(sides[side], 8) if masked else 1 << 30)
                    room[side] = max(room[side], min(slots, most))
        self.room = above, below, left, right = tuple(room)
        wide, tall = left + self.columns + right, above + self.rows + below
        gap = 1 if self.panels > 1 else 0
        beside = max(1, min(max(self.panels, 1), (BROAD + gap) // (wide + gap)))
        self.corners = [
            (left + k % beside * (wide + gap), above + k // beside * (tall + gap))
            for k in range(self.panels)
        ]
        self.width = beside * (wide + gap) - gap
        self.height = -(-max(self.panels, 1) // beside) * (tall + gap) - gap

    def slots(self, look: Look) -> np.ndarray:
        """The slot of each lane; -1 for those too far off to be drawn."""
        above, below, left, right = self.room
        shown = (look.row >= -above) & (look.row < self.rows + below)
        shown &= (look.column >= -left) & (look.column < self.columns + right)
        if not self.corners:
            return np.full(look.row.shape, -1, np.int64)
        x, y = np.array(self.corners, np.int64).T
        at = (y[look.panel] + look.row) * self.width + x[look.panel] + look.column
        return np.where(shown, at, -1)

    def slots_of(self, cells: np.ndarray) -> np.ndarray:
        """The slots of these cells."""
        panel: np.ndarray = cells // max(self.size, 1)
        within: np.ndarray = cells % max(self.size, 1)
        x, y = np.array(self.corners or [(0, 0)], np.int64).T
        return (y[panel] + within // self.columns) * self.width + x[panel] + within % self.columns

    def facts(self) -> dict:
        """What the page needs to draw the empty sheet."""
        return {
            "width": self.width,
            "height": self.height,
            "columns": self.columns,
            "size": self.size,
            "corners": self.corners,
            "dims": self.dims,
        }


def wrap(n: int) -> int:
    """At which length a long row is wrapped: a power of two, so that blocks line up."""
    return next((width for width, most in ((16, 128), (32, 512)) if n <= most), 64)


def runs(numbers: np.ndarray, states: np.ndarray | None = None) -> list[int]:
    """Numbers (-1 is left out) as even runs: first, step, count, and state if there are states.

    >>> runs(np.array([4, 5, 6, 20, 22, 24]))
    [4, 1, 3, 20, 2, 3]
    """
    keep = numbers >= 0
    numbers = numbers[keep]
    kinds = None if states is None else states[keep]
    out: list[int] = []
    at, n = 0, len(numbers)
    if n == 0:
        return out
    steps = np.diff(numbers)
    same = np.ones(n - 1, bool) if kinds is None else kinds[1:] == kinds[:-1]
    # Where a run that goes on at i must end: at a change of step or of state.
    even = np.concatenate([(steps[1:] == steps[:-1]) & same[1:] & same[:-1], [False]])
    breaks = np.flatnonzero(~even) if n > 1 else np.empty(0, np.int64)
    while at < n:
        if at == n - 1 or not same[at]:
            first, step, count = int(numbers[at]), 0, 1
        else:
            stop = int(breaks[np.searchsorted(breaks, at)]) + 1  # last number of the run
            first, step, count = int(numbers[at]), int(steps[at]), stop - at + 1
        out += [first, step, count] + ([] if kinds is None else [int(kinds[at])])
        at += count
    return out
