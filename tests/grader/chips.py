"""What the chips of the compile lane can hold, and what their cards can do at best.

Plain numbers and a few plain functions; nothing here imports torch or Triton or asks a driver.

Sources
-------
NVIDIA, limits of one SM: "CUDA C++ Programming Guide", table "Technical Specifications per Compute
Capability" (8.0, 8.9, 9.0, 10.0). The unit in which registers are handed out (256 a warp, and a
warp lives in one of four partitions) and the unit of shared memory (128 bytes) are those of the
CUDA occupancy calculator; that each block pays 1 KiB of shared memory to the system from 8.0 on is
in the tuning guides of Ampere, Hopper and Blackwell. The columns of tensor memory: "PTX ISA",
"Tensor Memory".

AMD, limits of one compute unit: "AMD Instinct MI300 Instruction Set Architecture" (CDNA 3: 512
vector registers a lane, handed out in eights, 64 KiB of LDS in units of 512 bytes) and LLVM's
AMDGPU backend, which rounds in the same way (8 waves a SIMD, four SIMDs, 16 workgroups of more
than one wave).

Cards: "NVIDIA A100 Tensor Core GPU" data sheet (SXM, 80 GB); "NVIDIA Ada GPU Architecture"
whitepaper, appendix A (RTX 4090); "NVIDIA H100 Tensor Core GPU" data sheet (SXM); "NVIDIA H200
Tensor Core GPU" data sheet (SXM); "AMD Instinct MI300X Accelerator" data sheet. Matrix rates are
dense ones, with fp32 accumulation; data sheets that print the rate with sparsity are halved here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KIB = 1024
MOST_PROGRAMS = (2**31 - 1, 65_535, 65_535)  # along each axis of a grid, on CUDA


@dataclass(frozen=True)
class Chip:
    """The limits of one SM (NVIDIA) or compute unit (AMD) of a compile target.

    Sizes of memory are in bytes, registers are 32 bits wide and counted for the whole SM.
    """

    target: str
    warp_size: int  # threads in a warp (NVIDIA) or a wave (AMD)
    registers_per_sm: int
    register_unit: int  # registers are handed to a warp in multiples of this
    partitions: int  # parts of an SM; a warp and its registers live in one of them
    max_registers: int  # of one thread
    max_warps_per_sm: int
    max_blocks_per_sm: int
    max_threads_per_block: int
    shared_per_sm: int
    shared_per_block: int  # the most a block can ask for (opt-in maximum)
    shared_unit: int  # shared memory is handed to a block in multiples of this
    shared_reserved: int  # what the system takes of it for every block
    tensor_columns: int = 0  # columns of tensor memory of an SM; 0 where a chip has none


@dataclass(frozen=True)
class Card:
    """A product with that chip: bandwidth in bytes/s, peak rates in floating-point operations/s.

    ``fp16`` is the dense matrix rate with fp32 accumulation, ``fp32`` the rate outside the matrix
    units. None where no figure is kept.
    """

    name: str
    target: str
    sms: int
    bandwidth: float | None
    fp16: float | None
    fp32: float | None


def _nvidia(target: str, warps: int, blocks: int, shared_per_sm: int, columns: int = 0) -> Chip:
    return Chip(
        target=target,
        warp_size=32,
        registers_per_sm=64 * KIB,
        register_unit=256,
        partitions=4,
        max_registers=255,
        max_warps_per_sm=warps,
        max_blocks_per_sm=blocks,
        max_threads_per_block=1024,
        shared_per_sm=shared_per_sm * KIB,
        shared_per_block=(shared_per_sm - 1) * KIB,  # the rest is what the system takes
        shared_unit=128,
        shared_reserved=1 * KIB,
        tensor_columns=columns,
    )


CHIPS: dict[str, Chip] = {
    "sm_80": _nvidia("sm_80", warps=64, blocks=32, shared_per_sm=164),
    "sm_89": _nvidia("sm_89", warps=48, blocks=24, shared_per_sm=100),
    "sm_90": _nvidia("sm_90", warps=64, blocks=32, shared_per_sm=228),
    "sm_100": _nvidia("sm_100", warps=64, blocks=32, shared_per_sm=228, columns=512),
    "gfx942": Chip(
        target="gfx942",
        warp_size=64,
        registers_per_sm=4 * 512 * 64,  # four SIMDs, 512 registers for each of 64 lanes
        register_unit=8 * 64,
        partitions=4,
        max_registers=512,
        max_warps_per_sm=32,
        max_blocks_per_sm=16,
        max_threads_per_block=1024,
        shared_per_sm=64 * KIB,
        shared_per_block=64 * KIB,
        shared_unit=512,
        shared_reserved=0,
    ),
}

CARDS: tuple[Card, ...] = (
    Card("A100 SXM 80GB", "sm_80", sms=108, bandwidth=2.039e12, fp16=312e12, fp32=19.5e12),
    Card("RTX 4090", "sm_89", sms=128, bandwidth=1.008e12, fp16=165.2e12, fp32=82.6e12),
    Card("H100 SXM", "sm_90", sms=132, bandwidth=3.35e12, fp16=989.5e12, fp32=67e12),
    Card("H200 SXM", "sm_90", sms=132, bandwidth=4.8e12, fp16=989.5e12, fp32=67e12),
    Card("B200", "sm_100", sms=148, bandwidth=None, fp16=None, fp32=None),
    Card("MI300X", "gfx942", sms=304, bandwidth=5.3e12, fp16=1307.4e12, fp32=163.4e12),
)


def cards_of(target: str) -> list[Card]:
    """The cards with that chip; empty for a target that is not in the table."""
    return [card for card in CARDS if card.target == target]


def grid_fault(sizes: Sequence[int]) -> str:
    """Why no kernel can be launched on a grid of these sizes ("" if one can)."""
    if not 1 <= len(sizes) <= 3:
        return f"a grid has one, two or three dimensions, not {len(sizes)}"
    if min(sizes) < 0:
        return f"a grid has no negative sizes: {list(sizes)}"
    for axis, (size, most) in enumerate(zip(sizes, MOST_PROGRAMS, strict=False)):
        if size > most:
            here = f"{size:,}" if size < 10**18 else "far more"
            text = (
                f"a grid has at most {most:,} programs along its axis {axis}, this one has {here}"
            )
            return text + (f"; axis 0 holds {MOST_PROGRAMS[0]:,}" if axis else "")
    return ""


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(
    chip: Chip, registers: int, shared: int, num_warps: int, tensor_memory: int = 0
) -> dict:
    """How many programs of a kernel fit one SM at a time.

    Parameters: registers of one thread; bytes of shared memory, warps and columns of tensor memory
    of one program.

    Returns ``{"blocks_per_sm": int, "warps_per_sm": int, "share": float, "limit": str}``: ``share``
    is the part (0 to 1) of the warps that the SM could hold, ``limit`` what stands in the way of
    one more program: ``"registers"``, ``"shared memory"``, ``"tensor memory"``, ``"warps"`` or
    ``"blocks"``. A program that cannot run there at all gives 0 blocks.

    Raises ValueError when ``num_warps`` is below 1.
    """
    if num_warps < 1:
        raise ValueError(f"a program has at least one warp, not {num_warps}")
    # No program runs with registers or shared memory beyond the limits of one thread or one block.
    if registers > chip.max_registers:
        by_registers = 0
    else:
        a_warp = _up(max(registers, 1) * chip.warp_size, chip.register_unit)
        in_partition = chip.registers_per_sm // chip.partitions // a_warp
        by_registers = in_partition * chip.partitions // num_warps
    if shared > chip.shared_per_block:
        by_shared = 0
    else:
        a_block = _up(shared + chip.shared_reserved, chip.shared_unit)
        by_shared = chip.shared_per_sm // a_block if a_block else chip.max_warps_per_sm
    by_warps = chip.max_warps_per_sm // num_warps
    if num_warps * chip.warp_size > chip.max_threads_per_block:
        by_warps = 0
    blocks = chip.max_blocks_per_sm
    if chip.warp_size == 64 and num_warps == 1:
        # AMD counts workgroups by their barriers, and a workgroup of one wave needs none.
        blocks = chip.max_warps_per_sm
    limits = {
        "warps": by_warps,
        "blocks": blocks,
        "registers": by_registers,
        "shared memory": by_shared,
    }
    if chip.tensor_columns and tensor_memory:
        limits["tensor memory"] = chip.tensor_columns // tensor_memory
    limit = min(limits, key=limits.__getitem__)
    warps = limits[limit] * num_warps
    return {
        "blocks_per_sm": limits[limit],
        "warps_per_sm": warps,
        "share": round(warps / chip.max_warps_per_sm, 4),
        "limit": limit,
    }


def fits(
    target: str, shared: int, num_warps: int = 1, tensor_memory: int = 0
) -> tuple[bool | None, str | None]:
    """Whether one program can run on the chip at all, and if not, why.

    Parameters: bytes of shared memory, warps and columns of tensor memory of one program.
    Returns ``(True, None)``, ``(False, note)``, or ``(None, None)`` for a target not in the table.
    Compiling alone does not tell: the limit is looked at when a kernel is loaded onto a GPU.
    """
    chip = CHIPS.get(target)
    if chip is None:
        return None, None
    if shared > chip.shared_per_block:
        return False, (
            f"needs {_kib(shared)} of shared memory in one program; "
            f"{target} has {_kib(chip.shared_per_block)}"
        )
    threads = num_warps * chip.warp_size
    if threads > chip.max_threads_per_block:
        return False, (
            f"needs {threads} threads in one program ({num_warps} warps of {chip.warp_size}); "
            f"{target} has {chip.max_threads_per_block}"
        )
    if chip.tensor_columns and tensor_memory > chip.tensor_columns:
        return False, (
            f"needs {tensor_memory} columns of tensor memory in one program; "
            f"{target} has {chip.tensor_columns}"
        )
    return True, None


def _kib(size: int) -> str:
    kib = size / KIB
    return f"{kib:.0f} KiB" if kib == int(kib) else f"{kib:.1f} KiB"
