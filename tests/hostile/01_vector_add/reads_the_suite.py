"""check values "does not import": takes inputs and expected results from the suite.

Twin: imports_more.py
"""

import torch
import triton
import triton.language as tl

import test_01_vector_add as suite


def add(x, y):
    return suite.KATA.reference(x, y)
