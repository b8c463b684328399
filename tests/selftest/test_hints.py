"""Beginners' mistakes are met with a sentence of our own, in both lanes without a GPU."""

from __future__ import annotations

import pytest
import torch
from grader import hints

MISTAKES = """
import math

@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    {line}
    tl.store(out_ptr + offsets, x)

def run(x):
    out = torch.empty_like(x)
    kernel[(1,)](x, out, BLOCK=16)
    return out
"""
LINES = [
    ("x = x_ptr[offsets]", "cannot be indexed like lists"),
    ("x[0] = x[1]", "cannot be indexed like lists"),
    ("x = x - max(x)", "tl.max(x, axis=0)"),
    ("x = x - sum(x)", "tl.sum(x, axis=0)"),
    ("x = math.exp(x)", "tl.exp"),
    ("x = x[:, None] @ x[None, :]", "tl.dot(a, b)"),
    ("x = torch.add(x, x)", "functions of torch do not run inside a kernel"),
    ("x = x_ptr + x", "read that with tl.load"),
    ("tl.store(x, out_ptr + offsets)", "the first argument of tl.store must be a pointer"),
    ("x = tl.maximum(x, axis=0)", "tl.max(x, axis=0)"),
    ("x = tl.load(x_ptr, mask=offsets < 8)", "x_ptr + offsets makes a block of pointers"),
    ("x = x[:, None] + tl.zeros((4, 8), tl.float32)", "give each the axis it lacks"),
    ("x = tl.arange(0, tl.program_id(0))", "bounds that are known when the kernel is compiled"),
    ("x = x + len(x_ptr)", "the launcher passes them as arguments"),
    ("x = x + x_ptr.shape[0]", "the launcher passes them as arguments"),
    ("x = x + x_ptr.stride(0)", "the launcher passes them as arguments"),
    ("x = x.float()", "x.to(tl.float32) converts one"),
    ("x = x - tl.sum(1.0, axis=0)", "tl.sum works on a block"),
    ("x = x - tl.max(0.0, axis=0)", "tl.max works on a block"),
    ("x = x - tl.max(x, dim=0)", "tl.max(x, axis=0)"),
    ("x = x - x.sum(dim=0)", "tl.sum(x, axis=0)"),
    ("x = x - tl.max(x, axis=1)", "axis 0 alone"),
    ("x = x + range(16)", "range() is for loops"),
    ("x = x + tl.arange(16)", "tl.arange(0, BLOCK_SIZE)"),
    ("x = x + tl.program_id()", "tl.program_id(axis=0)"),
    ("x = x + tl.arange(0, 12)", "must be a power of two"),
    ("x = x + torch.arange(16)", "torch.arange does not work inside a kernel"),
    ("x = x.to(torch.float16)", "such as tl.float32"),
    ("x = tl.load(x_ptr, offsets, mask=offsets < 8)", "offsets are added to the pointer"),
    ("x = x + x_ptr.numel()", "the launcher passes them as arguments"),
    ("x_ptr[offsets] = x", "cannot be indexed like lists"),
    ("x = torch.where(x > 0, x, 0.0)", "functions of torch do not run inside a kernel"),
    ("x = torch.where(x > 0, True, False)", "functions of torch do not run inside a kernel"),
    ("x = x_ptr + x_ptr", "read that with tl.load"),
    ("x = tl.maximum(x, -tl.inf)", 'written float("inf")'),
    ("x = tl.max(x, x)", "tl.maximum(x, y) compares two blocks"),
    ("x = tl.sum(x, x)", "which its second argument names"),
    ("x = x + int(x)", "x.to(tl.int32)"),
    ("x = x + float(x)", "x.to(tl.float32)"),
    ("if x > 0: x = x + 1", "no single truth value"),
    ("x = tl.where(0 <= x < 1, x, 0.0)", "(a <= b) & (b < c)"),
    ('x = tl.dot(tl.zeros((16, 16), x.dtype), tl.zeros((16, 16), x.dtype), "ieee")', "by name"),
    ("x = tl.relu(x)", "tl has no relu: it is put together from what tl has"),
    ("x = [a + b for a, b in zip(x, x)]", "operators work on all its lanes at once"),
]
INTERNAL = ("_LoopIndex", "_semantic", "constexpr[", "MatMult", "Impl", "scalars", "Traceback")


@pytest.mark.parametrize(("line", "said"), LINES)
def test_both_lanes_say_what_to_write_instead(traced, nursery, line, said):
    file = traced(MISTAKES.format(line=line), "x")
    error = file(torch.ones(16)).error
    messages = [f"{error['type']}: {error['message']}"]
    request = {"file": file.child.request["file"], "launcher": "run", "allowed": []}
    compiler = type(file.child)(nursery, "compile", request)
    specs, blobs = hints_arguments(file, torch.ones(16))
    answer = compiler.call({"args": specs, "targets": ["sm_90"]}, blobs)
    compiler.stop()
    messages += [launch["error"]["message"] for launch in answer.facts["launches"]]
    assert len(messages) == 2
    for message in messages:
        assert said in message
        assert not any(word in message for word in INTERNAL)


def hints_arguments(file, *arguments):
    from grader.tensors import describe_arguments

    return describe_arguments(file.names, list(arguments))


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("TypeError: 'function' object is not subscriptable", "k[g](x)", "put @triton.jit"),
        (
            "TypeError: add_kernel() missing 4 required positional arguments: 'y_ptr'",
            "    add_kernel(grid)(x, y)",
            "add_kernel[grid](...)",
        ),
        (
            "ValueError: arange's arguments must be of type tl.constexpr",
            "tl.arange(0, BLOCK)",
            "BLOCK is not",
        ),
        (
            "TypeError: add_kernel() got multiple values for argument 'BLOCK_SIZE'",
            "    add_kernel(grid, x, y, out, n, BLOCK_SIZE=1024)",
            "add_kernel[grid](...)",
        ),
        ("AttributeError: 'function' object has no attribute 'arg_names'", "", "above @triton.jit"),
        ("AttributeError: 'dict' object has no attribute 'kwargs'", "", "triton.Config({...}"),
        ("AttributeError: 'int' object has no attribute 'kwargs'", "", "triton.Config({...}"),
        (
            "ValueError: Unsupported ptr type <['16'], int64> in `tl.load`",
            "x = tl.load(x_ptr + offsets, mask=mask)",
            "x_ptr is a whole number here",
        ),
        (
            "AttributeError: 'builtin_function_or_method' object has no attribute 'type'",
            "x = tl.load(x_ptr + row * stride_row + cols)",
            "x.stride(0), with its brackets",
        ),
        (
            "TypeError: add_kernel() missing 1 required positional argument: 'BLOCK_SIZE'",
            "    add_kernel[grid](x, y, out, n)",
            "the launch must give 'BLOCK_SIZE' a value",
        ),
        (
            "TypeError: Config.__init__() got an unexpected keyword argument 'BLOCK'",
            "triton.Config(BLOCK=64)",
            'triton.Config({"BLOCK": ...}, num_warps=4)',
        ),
        ("NameError: name 'math' is not defined", "padding = -math.inf", 'float("inf")'),
        ("int32[] is not string", "print(pid)", 'print("x =", x)'),
        ("RuntimeError: type of return operand 0 doesn't match", "return x", "tl.store(out_ptr"),
        (
            "ValueError: Conflicting meta-parameters: BLOCK. Make sure",
            "",
            "BLOCK comes from the autotuner's configs",
        ),
    ],
)
def test_a_sentence_for_an_error(error, code, said):
    assert said in hints.plain(error, code)


def test_an_index_means_something_else_in_the_launcher():
    error, code = "IndexError: tuple index out of range", "n = x.shape[0]"
    assert "bare pointer" in hints.plain(error, code)
    assert "x.numel()" in hints.plain(error, code, kernel=False)


def test_a_parameter_without_a_value_is_no_fault_of_the_grid():
    names, parameters = ["x_ptr", "n"], ["x_ptr", "n", "BLOCK"]
    said = hints.grid_function(KeyError("BLOCK"), names, parameters)
    assert said == "BLOCK has no value: neither the launch nor a config of a tuner sets it"
    said = hints.grid_function(NameError("name 'BLOCK' is not defined"), parameters, parameters)
    assert "meta['BLOCK'] holds" in said


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        (8, "such as (8,), not 8"),
        (7.5, "triton.cdiv(n_elements, BLOCK_SIZE)"),
        ((7.5,), "triton.cdiv(n_elements, BLOCK_SIZE)"),
        (None, "not None: does a grid function return it?"),
        ({"x": 1}, "not {'x': 1}"),
    ],
)
def test_what_is_no_grid_is_told_what_to_write(grid, said):
    with pytest.raises(TypeError, match="a grid must be a tuple of whole numbers") as told:
        hints.grid_sizes(grid)
    assert said in str(told.value)


def test_whole_numbers_of_any_kind_make_a_grid():
    assert hints.grid_sizes([2, torch.tensor(3), True]) == (2, 3, 1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("NameError: name 'z' is not defined", "x = z"),
        ("TypeError: 'int' object is not iterable", "for a in 5:"),
        ("TypeError: add() missing 1 required positional argument: 'y'", "add(x)"),
    ],
)
def test_no_sentence_where_none_fits(error, code):
    assert hints.plain(error, code) is None
