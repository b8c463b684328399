"""The memory that a traced launcher works in: every tensor a buffer of its own, with room around it.

Inputs and everything the launcher allocates live in anonymous mappings with an unused gap on both
sides, so an address that misses its tensor never lands in another one by chance, and new memory is
filled with NaN (integers: a large odd number) so that an element nobody wrote shows.

A buffer keeps a shadow: the bytes it must hold if only kernels (and allocations) wrote to it. A
difference means that something else did the work.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import weakref

import numpy as np
import torch

GAP = 1 << 16  # bytes before and after each buffer
MOST_MADE = 16  # elements of one call that may come from Python numbers, torch.tensor([s]) for one
POISON_INT = {1: 0x55, 2: 0x5555, 4: 0x55555555, 8: 0x5555555555555555}


class Buffer:
    """One storage: its bytes, its shadow, and per element who read and wrote it."""

    def __init__(self, name: str, kind: str, start: int, raw: np.ndarray, itemsize: int):
        self.name = name
        self.kind = kind  # input | empty | filled | copy | foreign | kept
        self.start = start
        self.end = start + raw.nbytes
        self.raw = raw
        self.itemsize = itemsize
        self._shift = itemsize.bit_length() - 1  # a power of two, and shifting is quicker
        self.elements = raw.nbytes // itemsize
        self.shadow = raw.copy()
        self.read: np.ndarray = np.zeros(self.elements, bool)
        self.written: np.ndarray = np.zeros(self.elements, bool)
        self.masked_off: np.ndarray = np.zeros(
            self.elements, bool
        )  # a masked-off store lane pointed here
        self.twice: np.ndarray = np.zeros(
            self.elements, bool
        )  # two programs of one launch stored here
        self.writer: np.ndarray = np.full(self.elements, -1, np.int32)  # program of this launch
        self.reader: np.ndarray | None = None  # likewise for loads (not of mere inputs)
        self.filled: np.ndarray | None = None  # of a kept one: filled in this call
        self.skipped: np.ndarray | None = None  # a masked-off load lane pointed here
        self.lost: np.ndarray | None = None  # a kernel's work that PyTorch has written over
        self.updated = False  # is it an input that the kata updates in place?
        self.adopted = False  # is it memory that the launcher got in some way of its own?
        self.loaded_bytes = self.stored_bytes = 0
        self.conflicts = 0  # stores of a different value to an element another program wrote

    def index(self, addresses: np.ndarray) -> np.ndarray:
        """Element numbers of byte addresses in this buffer."""
        return (addresses - np.uint64(self.start)).view(np.int64) >> self._shift

    def places_of(self, addresses: np.ndarray, itemsize: int) -> np.ndarray:
        """Element numbers that accesses of so many bytes touch: several of narrower elements."""
        at = self.index(addresses)
        if itemsize <= self.itemsize:
            return at
        return (at[:, None] + np.arange(itemsize // self.itemsize)).reshape(-1)

    def fill(self, blob) -> None:
        """Take these bytes, from outside, as the buffer's content."""
        self.raw[:] = memoryview(blob)
        self.resync()

    def resync(self) -> None:
        """Take the present bytes as the expected ones (after an allowed operation)."""
        np.copyto(self.shadow, self.raw)

    def settle(self, tensor) -> None:
        """Take what PyTorch wrote to this tensor, which lies here: it is no kernel's work."""
        self.resync()
        if self.written.any() and tensor.numel():
            before = self.written.copy()
            self.written[self.places(tensor)] = False
            lost = before & ~self.written
            self.lost = lost if self.lost is None else self.lost | lost

    @property
    def dropped(self) -> int:
        """How many elements were only met by lanes of loads that a mask had switched off."""
        return 0 if self.skipped is None else int(np.count_nonzero(self.skipped & ~self.read))

    @property
    def overwritten(self) -> int:
        """How many elements hold what PyTorch put in place of a kernel's work."""
        return 0 if self.lost is None else int(np.count_nonzero(self.lost & ~self.written))

    def keep(self) -> None:
        """Make it one that an earlier call left behind: nothing in it is this call's work."""
        self.kind = "kept"
        self.filled = np.zeros(self.elements, bool)
        self.forget()

    def forget(self) -> None:
        """Nothing has been read or written yet."""
        for flags in (self.read, self.written, self.masked_off, self.twice):
            flags.fill(False)
        self.skipped = self.lost = None
        self.loaded_bytes = self.stored_bytes = self.conflicts = 0

    def stale(self, at: np.ndarray) -> int:
        """How many of these elements hold what an earlier call left there."""
        if self.filled is None:
            return 0
        return int(np.count_nonzero(~(self.filled[at] | self.written[at])))

    def places(self, tensor) -> np.ndarray:
        """Element numbers of a tensor that lies here; of another element size: of all it touches."""
        wide = tensor.element_size()
        start = tensor.untyped_storage().data_ptr() - self.start + tensor.storage_offset() * wide
        at = np.full(tuple(tensor.shape), start, np.int64)
        for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            steps = np.arange(size, dtype=np.int64) * (stride * wide)
            at += steps.reshape(-1, *[1] * (tensor.dim() - axis - 1))
        flat = at.reshape(-1)
        if wide > self.itemsize:
            flat = (flat[:, None] + np.arange(0, wide, self.itemsize)).reshape(-1)
        return flat // self.itemsize

    def tampered(self) -> int:
        """How many elements differ from what kernels and allocations left there."""
        if np.array_equal(self.shadow, self.raw):
            return 0
        different: np.ndarray = np.flatnonzero(self.shadow != self.raw) // self.itemsize
        return int(np.unique(different).size)


class Memory:
    """All buffers of one case, found by address."""

    device = "cpu"

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        # For accesses where all tensors are empty, and none of them has an address of its own.
        self.nowhere = Buffer("an empty tensor", "empty", 0, np.zeros(0, np.uint8), 1)
        self._starts: list[int] = []
        self._keep: list = []
        self._rooms: list[tuple] = []  # of what the launcher allocated: weak reference, bytes
        self._kept: list[tuple] = []  # likewise, of earlier calls
        self.made = 0  # elements that came from Python numbers
        self.looked = False  # has Python looked at what is in a tensor?

    def find(self, address: int) -> Buffer | None:
        """The buffer at or nearest to this byte address."""
        if not self.buffers:
            return None
        at = bisect.bisect_right(self._starts, address) - 1
        if at >= 0 and address < self.buffers[at].end:
            return self.buffers[at]
        near = [self.buffers[i] for i in (at, at + 1) if 0 <= i < len(self.buffers)]
        return min(near, key=lambda b: max(b.start - address, address - b.end + 1, 0))

    def add(self, buffer: Buffer) -> Buffer:
        at = bisect.bisect_left(self._starts, buffer.start)
        self._starts.insert(at, buffer.start)
        self.buffers.insert(at, buffer)
        return buffer

    def allocate(self, nbytes: int, itemsize: int, dtype, name: str, kind: str):
        """A fresh 1-D tensor of `dtype` over its own guarded memory, and its Buffer."""
        room = mmap.mmap(-1, GAP + nbytes + GAP + mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
        tensor = torch.frombuffer(room, dtype=dtype, count=nbytes // itemsize, offset=GAP)
        raw = np.frombuffer(room, np.uint8, nbytes, GAP)
        self._keep.append(room)
        if kind != "input":
            self._rooms.append((weakref.ref(room), nbytes))
        return tensor, self.add(Buffer(name, kind, tensor.data_ptr(), raw, itemsize))

    def place(self, size, stride, dtype, name: str, kind: str, offset: int = 0, elements=None):
        """A tensor of this shape and these strides (in elements) in guarded memory.

        `elements` is the storage's length; by default just what shape, strides and offset need.
        Tensors without elements get ordinary memory: there is nothing to guard.
        """
        itemsize = dtype.itemsize
        needed = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        if 0 in size:
            return torch.empty_strided(size, stride, dtype=dtype, device="cpu")
        length = max(needed, elements or 0)
        flat, buffer = self.allocate(length * itemsize, itemsize, dtype, name, kind)
        poison(flat)
        buffer.resync()
        return torch.as_strided(flat, size, stride, offset)

    def of(self, tensor) -> Buffer | None:
        """The buffer that holds this tensor's storage, if the memory knows it."""
        try:
            start = tensor.untyped_storage().data_ptr()
        except Exception:
            return None
        if start == 0:
            return None
        at = bisect.bisect_right(self._starts, start) - 1
        if at >= 0 and self.buffers[at].start <= start < self.buffers[at].end:
            return self.buffers[at]
        return None

    # ---- what was not allocated here -----------------------------------------------------------

    def rooms(self) -> list[tuple]:
        """What launchers still hold of the memory that they allocated here or earlier."""
        return [kept for kept in self._kept + self._rooms if kept[0]() is not None]

    def remember(self, rooms: list[tuple]) -> None:
        """Know the memory of earlier calls when it comes up again."""
        self._kept = rooms

    def age(self) -> None:
        """A second call begins: what the first one allocated is kept now, and the rest unknown."""
        self.buffers = [b for b in self.buffers if not b.adopted]
        self._starts = [b.start for b in self.buffers]
        for buffer in self.buffers:
            if buffer.kind != "input":
                buffer.keep()
            buffer.forget()
        self.made, self.looked = 0, False

    def known(self, tensor) -> Buffer | None:
        """The buffer that holds this tensor, be it one that an earlier call allocated."""
        buffer = self.of(tensor)
        if buffer is not None or not self._kept:
            return buffer
        try:
            start = tensor.untyped_storage().data_ptr()
        except Exception:
            return None
        for reference, nbytes in self._kept:
            room = reference()
            if room is None:
                continue
            raw = np.frombuffer(room, np.uint8, nbytes, GAP)
            first = raw.__array_interface__["data"][0]
            if first <= start < first + nbytes:
                self._keep.append(room)
                itemsize = tensor.element_size()
                buffer = self.add(Buffer("", "kept", first, raw, itemsize))
                buffer.keep()
                return buffer
        return None

    def few(self, elements: int) -> bool:
        """Whether so many elements more may come from Python numbers in this call.

        A scalar in a tensor is fine; results that Python works out are not. So there may be a few
        only, and none once Python has looked at what a tensor holds.
        """
        self.made += elements
        return self.made <= MOST_MADE and not self.looked

    def adopt(self, tensor, name: str) -> Buffer | None:
        """Register a storage that was made in some way the memory did not see.

        It is 'filled' if it is so small that numbers of Python may be in it, else 'foreign'.
        """
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0 or storage.data_ptr() == 0 or tensor.device.type != "cpu":
            return None
        view = (ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr())
        raw = np.frombuffer(view, np.uint8)
        self._keep.append(storage)
        itemsize = tensor.element_size()
        kind = "filled" if self.few(max(raw.size // itemsize, 1)) else "foreign"
        buffer = self.add(Buffer(name, kind, storage.data_ptr(), raw, itemsize))
        buffer.adopted = True
        return buffer


def poison(flat: torch.Tensor) -> None:
    """Fill with what no right kernel leaves behind: NaN, or a large odd number."""
    if flat.dtype.is_floating_point:
        flat.fill_(float("nan"))
    elif flat.dtype == torch.bool:
        flat.fill_(True)
    else:
        flat.fill_(POISON_INT[flat.element_size()])
