"""check values "does not import": runs the reference solution in its own place.

Twin: imports_more.py, which takes its functions from libraries that are there.
"""

import pathlib

import torch
import triton
import triton.language as tl

for place in pathlib.Path(__file__).resolve().parents:
    if (place / "solutions").is_dir():
        exec((place / "solutions/01_vector_add/kernel.py").read_text())
        break
else:
    import solutions
