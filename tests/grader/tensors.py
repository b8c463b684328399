"""Tensors as the bytes and descriptions that go to a worker and come back from it."""

from __future__ import annotations

import math

import torch

from .kata import Kata
from .reasons import Wrong

DTYPES = (  # that a result may have and that every PyTorch can compare
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()


def describe_arguments(kata: Kata, arguments: list) -> tuple[list[dict], list[bytes]]:
    """Arguments as JSON descriptions and storage bytes, for the worker."""
    specs: list[dict] = []
    blobs: list[bytes] = []
    for name, value in zip(kata.parameters, arguments, strict=False):
        if not isinstance(value, torch.Tensor):
            specs.append({"name": name, "value": value})
            continue
        specs.append(
            {
                "name": name,
                "dtype": short(value.dtype),
                "shape": list(value.shape),
                "strides": list(value.stride()),
                "offset": value.storage_offset(),
                "elements": value.untyped_storage().nbytes() // value.element_size(),
                "blob": len(blobs),
                "updated": name in getattr(kata, "updates", ()),
            }
        )
        blobs.append(storage_bytes(value))
    return specs, blobs


def storage_bytes(tensor: torch.Tensor) -> bytes:
    """All bytes of a CPU tensor's storage, gaps included."""
    if tensor.numel() == 0:
        return b""
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return flat.numpy().tobytes()


def updated_from(storage: bytes, tensor: torch.Tensor) -> torch.Tensor:
    """A copy of this tensor, gaps included, with its elements as they are in another storage."""
    parts = []
    for data in (storage_bytes(tensor), storage):
        flat = torch.frombuffer(bytearray(data), dtype=tensor.dtype)
        parts.append(flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()))
    return parts[0].copy_(parts[1])


def decode(blob, dtype: str, shape) -> torch.Tensor:
    """Raw bytes as a tensor. Raises Wrong when the worker's bytes do not fit its own words."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or short(kind) not in DTYPES:
        raise Wrong(f"the result has an unknown dtype {dtype!r}", "robust")
    count = math.prod(shape)
    if len(blob) != count * torch.empty((), dtype=kind).element_size():
        raise Wrong("the result's bytes do not fit its shape", "robust")
    if count == 0:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(bytearray(blob), dtype=kind).reshape(shape)


def short(dtype) -> str:
    return str(dtype).removeprefix("torch.")
