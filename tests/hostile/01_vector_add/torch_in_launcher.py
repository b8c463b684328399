"""check values "PyTorch does part of the work: add": no kernel at all.

Twin: views_and_zeros.py
"""

import torch
import triton
import triton.language as tl


def add(x, y):
    return x + y
