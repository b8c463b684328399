"""The gpu lane, inside the worker: the memory that a launcher works in on the card, and its ears.

A card stops a kernel only when it leaves the process's memory altogether; a store a few elements
past a tensor lands in some other one and nobody hears of it. So every tensor, inputs and whatever
the launcher allocates, lies between two guard bands, and bands and new memory alike are filled
with one pattern of bytes:

- read as fp16, bf16 or fp32 it is NaN everywhere, so that a lane that reads outside and lets it
  count shows in the result;
- it differs from place to place and from tensor to tensor, so that no kernel puts it back, be it
  by copying from one band to another: a band that has changed was stored into, and an element
  that still holds the pattern was never written.
"""

from __future__ import annotations

import contextlib
import re
import types
from collections.abc import Iterator

import numpy as np
import torch

BAND = 1 << 20  # bytes of guard band before and after each tensor
PHASE = 8 * 4799  # bytes by which the pattern of each tensor is shifted against the one before
MOST_LAUNCHES = 32  # launches named in the answer
GRAIN = 16  # bytes that a store through a tensor descriptor writes at a time
BULK_STORE = re.compile(r"\bcp\.(reduce\.)?async\.bulk\.tensor\.\dd\.global\.shared")  # in PTX
BROKEN = "CUDA error: "  # how PyTorch begins what it says about a broken context


def pattern() -> np.ndarray:
    """One band's bytes, uint8 [BAND]: NaN as fp16, bf16 and fp32, but none that a chip makes."""
    noise = np.random.default_rng(20250).integers(0, 256, BAND, np.uint8)
    # Even bytes hold the exponent's last bit (bf16, fp32) and the end of the mantissa, which is
    # neither all ones nor all zeros: a kernel's own NaN is one of those.
    tile = (noise | np.uint8(0x81)) & np.uint8(0xFD)
    tile[1::2] = noise[1::2] | np.uint8(0x7F)  # odd bytes: any sign, then exponent bits, all set
    return tile


class CardBuffer:
    """One tensor's storage between its bands. `name` is "" until a kernel is called with it."""

    def __init__(self, memory: CardMemory, name: str, kind: str, nbytes: int, itemsize: int):
        self.memory, self.name, self.kind = memory, name, kind
        self.nbytes, self.itemsize = nbytes, itemsize
        self.phase = len(memory.buffers) * PHASE % BAND  # where in the pattern this room begins
        self.room = torch.empty(BAND + nbytes + BAND, dtype=torch.uint8, device=memory.device)
        for start, want in self._pieces(0, len(self.room)):
            self.room[start : start + len(want)] = want
        self.body = self.room[BAND : BAND + nbytes]
        # A storage of the tensor's own length: a launcher that asks for it sees no bands.
        self.storage = self.room.untyped_storage()[BAND : BAND + nbytes]
        self.start = self.body.data_ptr()
        self.updated = False  # of use to the trace lane alone

    @property
    def elements(self) -> int:
        return self.nbytes // self.itemsize

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, torch.Tensor]]:
        """What the pattern holds from byte `start` to `end` of the room, in pieces."""
        tile = self.memory.tile
        while start < end:
            at = (start + self.phase) % BAND
            want = tile[at : at + min(end - start, BAND - at)]
            yield start, want
            start += len(want)

    def _changed(self, start: int, end: int) -> torch.Tensor:
        """Per byte of this part of the room: does it no longer hold the pattern?"""
        parts = [self.room[at : at + len(w)] != w for at, w in self._pieces(start, end)]
        return torch.cat(parts)

    def outside(self, bulk: bool = False) -> list[dict]:
        """Stores into the bands: side, and how many elements of this tensor's size.

        `bulk`: kernels stored through tensor descriptors. Triton promises that such a store leaves
        out what lies outside, but the hardware does it in grains of 16 bytes: what shares a grain
        with the tensor's last element is overwritten (seen on an H200). That is not the kernel's
        fault.
        """
        events = []
        spared = -self.nbytes % GRAIN if bulk else 0
        for side, start in (("before", 0), ("after", BAND + self.nbytes)):
            changed = self._changed(start, start + BAND)
            if side == "after":
                changed[:spared] = False
            if not bool(changed.any()):
                continue
            places = torch.nonzero(changed).flatten()
            count = len(torch.unique(places // self.itemsize))
            events.append(
                {
                    "buffer": self.name,
                    "kind": self.kind,
                    "side": side,
                    "count": count,
                    "elements": self.elements,
                }
            )
        return events

    def fill(self, blob) -> None:
        """Take these bytes as content (inputs)."""
        self.body.copy_(torch.frombuffer(bytearray(blob), dtype=torch.uint8))

    def content(self) -> bytes:
        """The bytes as they are now."""
        return self.body.cpu().numpy().tobytes()

    def resync(self) -> None:
        """Nothing to do: only the trace lane keeps a copy to compare with."""

    def settle(self, tensor) -> None:
        """Nothing to do: only the trace lane knows who wrote what."""

    # What `worker.describe_result` asks for, as the trace lane's buffers know it per element.

    @property
    def written(self) -> np.ndarray:
        """bool [elements]: written since it was allocated (inputs and filled memory: all)."""
        if self.kind != "empty":
            return np.ones(self.elements, bool)
        changed = self._changed(BAND, BAND + self.nbytes)
        return changed.view(-1, self.itemsize).any(1).cpu().numpy()

    @property
    def masked_off(self) -> np.ndarray:
        """Unknown on a card: none."""
        return np.zeros(self.elements, bool)

    twice = masked_off


class CardMemory:
    """All tensors of one call. The same interface as `memory.Memory`, as far as `Watch` needs it.

    `device` is "cuda"; the tests of the grader use "cpu" to look at bands without a card.
    """

    def __init__(self, tile: torch.Tensor, device: str = "cuda"):
        self.tile, self.device = tile, device
        self.buffers: list[CardBuffer] = []
        self._by_start: dict[int, CardBuffer] = {}

    def place(self, size, stride, dtype, name: str, kind: str, offset: int = 0, elements=None):
        """A tensor of this shape and these strides (in elements) between guard bands.

        `elements` is the storage's length; by default just what shape, strides and offset need.
        Tensors without elements get ordinary memory: there is nothing to guard.
        """
        if 0 in size:
            return torch.empty_strided(size, stride, dtype=dtype, device=self.device)
        itemsize = torch.empty((), dtype=dtype).element_size()
        needed = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        buffer = CardBuffer(self, name, kind, max(needed, elements or 0) * itemsize, itemsize)
        self.buffers.append(buffer)
        self._by_start[buffer.start] = buffer
        return torch.empty(0, dtype=dtype, device=self.device).set_(
            buffer.storage, offset, tuple(size), tuple(stride)
        )

    def of(self, tensor) -> CardBuffer | None:
        """The buffer that holds this tensor's storage, if it is one of these."""
        try:
            return self._by_start.get(tensor.untyped_storage().data_ptr())
        except Exception:  # no storage (a tensor descriptor, a fake tensor)
            return None


class Card:
    """The card as the gpu lane uses it: one CUDA context, hooks into Triton, and plain words.

    `tuner` is the worker's TunerHook. `failure` describes why the card cannot be used, or is None.
    """

    def __init__(self, tuner) -> None:
        self.tuner = tuner
        self.failure: dict | None = None
        self._synchronize = torch.cuda.synchronize  # before the file under test can replace it
        self.launches: list[dict] = []
        self.launched = 0
        self.bulk = False  # did a kernel of this call store through a tensor descriptor?
        self._bulk: dict[int, tuple] = {}  # by id: a compiled kernel, and whether it does
        self.watched: tuple | None = None
        try:
            self.tile = torch.from_numpy(pattern()).to("cuda")
            self._hook()
        except Exception as error:
            text = str(error).strip().splitlines() or [type(error).__name__]
            self.failure = {"where": "no-card", "type": "", "message": text[0], "line": None}

    def memory(self) -> CardMemory:
        """Memory for one call."""
        return CardMemory(self.tile)

    def synchronize(self) -> None:
        """Wait for all kernels. Raises what the card has to complain about."""
        self._synchronize()

    @contextlib.contextmanager
    def listening(self, memory: CardMemory, watch):
        """Hear of launches, name tensors by the kernel's parameters, keep the tuner in hand."""
        self.launches, self.launched, self.bulk = [], 0, False
        self.watched = (memory, watch)
        try:
            yield
        finally:
            self.watched = None

    def facts(self, memory: CardMemory) -> dict:
        """What this call did, in the words of the trace lane's facts where they are the same."""
        return {
            "launches": self.launches,
            "launched": self.launched,
            "outside": [event for buffer in memory.buffers for event in buffer.outside(self.bulk)],
            "hazards": [],
            "buffers": [],
            "sites": [],
        }

    def explain(self, error: dict) -> dict:
        """The error, or what the card says if that is why the call failed; then it is `fatal`.

        After an illegal access every later call in the process fails too: it has to be ended.
        """
        try:
            self._synchronize()
        except Exception as broken:
            text = str(broken).strip().splitlines()[0].removeprefix(BROKEN)
            return error | {"where": "card", "message": text, "fatal": True}
        return error

    # ---- hooks into Triton -------------------------------------------------------------------

    def _hook(self) -> None:
        from triton import knobs
        from triton.compiler.errors import CompileTimeAssertionFailure
        from triton.runtime import driver
        from triton.runtime.autotuner import Autotuner, OutOfResources
        from triton.runtime.jit import JITFunction

        # The first use of Triton on a machine builds its link to the driver: a missing C compiler
        # is the machine's fault and shows here, not as an error of the file under test.
        driver.active.get_current_device()
        card = self

        def launched(metadata) -> None:
            if card.watched is None:
                return
            card.launched += 1
            if len(card.launches) < MOST_LAUNCHES:
                card.launches.append({"kernel": str(metadata.get().get("name", "kernel"))})

        knobs.runtime.launch_enter_hook.add(launched)

        run_kernel = JITFunction.run

        def run(self, *args, **kwargs):
            if card.watched is not None:
                named = dict(zip(self.arg_names, args, strict=False)) | kwargs
                for name, value in named.items():
                    buffer = card.watched[0].of(getattr(value, "base", value))
                    if buffer is not None and not buffer.name:
                        buffer.name = name.removesuffix("_ptr").removesuffix("_desc") or name
            compiled = run_kernel(self, *args, **kwargs)
            if card.watched is not None:
                card.bulk |= card._stores_in_bulk(compiled)
            return compiled

        JITFunction.run = run
        tune = Autotuner.run

        def run_tuned(self, *args, **kwargs):
            """One config by itself, or Triton's own tuning with its timing unwatched."""
            card.tuner.note(self, args, kwargs)
            if card.tuner.config is None:
                with card._quietly(self):
                    return tune(self, *args, **kwargs)
            configs = self.configs
            try:
                # A config that asks for more than this card has is passed over, as in tuning.
                for at in range(min(card.tuner.config, len(configs) - 1), len(configs)):
                    self.configs = [configs[at]]
                    try:
                        return tune(self, *args, **kwargs)
                    except (OutOfResources, CompileTimeAssertionFailure):
                        if at == len(configs) - 1:
                            raise
            finally:
                self.configs = configs

        Autotuner.run = run_tuned

    def _stores_in_bulk(self, compiled) -> bool:
        """Whether a compiled kernel stores through tensor descriptors."""
        known = self._bulk.get(id(compiled))
        if known is None:
            text = getattr(compiled, "asm", {}).get("ptx") or ""
            known = self._bulk[id(compiled)] = (compiled, bool(BULK_STORE.search(text)))
        return known[1]

    @contextlib.contextmanager
    def _quietly(self, tuner):
        """While the tuner times, its own tensors and sums are not the launcher's."""
        bench = tuner.do_bench
        watch = self.watched[1] if self.watched else types.SimpleNamespace(paused=False)

        def unwatched(*args, **kwargs):
            watch.paused = True
            try:
                return bench(*args, **kwargs)
            finally:
                watch.paused = False

        tuner.__dict__["do_bench"] = unwatched
        try:
            yield
        finally:
            tuner.__dict__["do_bench"] = bench
