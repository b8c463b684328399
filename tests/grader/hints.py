"""What a beginner's mistake means, in place of what Python or Triton says of it inside.

Each row of the table has a pattern for the error (its type and message), a pattern for the line of
the kernel it comes from, and the sentence to say: `{error}` and `{code}` stand for what the first
group of either pattern caught. The first row that fits counts. Both lanes without a GPU use it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence

# What comes of treating a pointer or a block as a Python sequence, in either lane.
SEQUENCE = (
    r"object is not iterable|requires at least 2 values|Did you forget to add @triton\.jit"
    r"|does not support item assignment|Unsupported function referenced|unsupported tensor index"
    r"|sum is not defined|__setitem__ is not supported|arrays can be converted to Python scalars"
)
NO_NUMBER = (
    r"arrays can be converted to Python scalars|must be real number, not tensor"
    r"|Unsupported function referenced"
)

# Said in several places.
ONE_TRUTH = (
    "a block has no single truth value, so it cannot decide an `if` or a `while`. Combine blocks "
    "with & | ~ (each comparison in parentheses) and choose between lanes with tl.where"
)
CHAINED = "comparisons cannot be chained in a kernel: write (a <= b) & (b < c) for a <= b < c"
RANGE = "range() is for loops: tl.arange(0, BLOCK_SIZE) makes a block of whole numbers"
POWER = (
    "the size of a block must be a power of two (256, 512, 1024, ...): a mask takes care of sizes "
    "that are none"
)
CONFIGS = "configs is a list of triton.Config({...}, num_warps=...), not of plain dicts or numbers"
# What comes of a config that sets what the kernel has no parameter for.
MISNAMED = (
    r"missing (?:\d+|a) required|must give \S+ a value|has no value: neither|asks for meta\["
    r"|was specified but unrecogni[sz]ed"
)
WARPS = "num_warps must be a power of two (1, 2, 4, 8, ...)"


def launched(kernel: str) -> str:
    """How a kernel is launched."""
    return f"a kernel is launched with its grid in square brackets: {kernel}[grid](...)"


# In the launcher the same words can mean something else.
LAUNCHER = [
    (
        r"(?:list|tuple) index out of range|Dimension out of range",
        r"(\w+)\.(?:shape\[|size\(|stride\()",
        "{code} has fewer dimensions here, perhaps none: {code}.numel() counts the elements of any "
        "shape",
    ),
]

TABLE = [
    (
        SEQUENCE,
        r"(?<![\w.])(max|min|sum)\(",
        "Python's {code} does not work on a block: tl.{code}(x, axis=0) does",
    ),
    (
        SEQUENCE,
        r"[\w)\]]\s*\[(?!\s*(?:None|:))",
        "pointers and blocks cannot be indexed like lists: tl.load(x_ptr + offsets) reads a block "
        "of elements, tl.store(out_ptr + offsets, values) writes one",
    ),
    (
        NO_NUMBER,
        r"\bmath\.(\w+)\(",
        "math.{code} takes one number, not a block: use Triton's own function, such as tl.exp",
    ),
    (
        r"(?:int|float)\(\) argument must be|arrays can be converted to Python scalars",
        r"(?<![\w.])(?:int|float)\((?![\"'])",
        "Python's int() and float() convert nothing in a kernel: x.to(tl.int32) and x.to(tl.float32) "
        "do",
    ),
    (
        r"is not string",
        r"\bprint\(",
        'print in a kernel wants a text first, print("x =", x), or take it out again',
    ),
    (
        r"Boolean value of Tensor with more than one value",
        "",
        ONE_TRUTH,
    ),
    (
        r"for @: 'tensor'|'MatMult'",
        "",
        "blocks are multiplied as matrices by tl.dot(a, b), not by @",
    ),
    (
        r"'function' object is not subscriptable",
        "",
        "put @triton.jit above the kernel's def: without it the kernel cannot be launched",
    ),
    (
        r"\w+\(\) missing \d+ required|Cannot call @triton\.jit'd outside",
        r"(\w+)\(\w+\)\(",
        launched("{code}"),
    ),
    (
        r"missing (?:\d+ required positional arguments?|a required argument): (.+)",
        r"\w\[.+\]\(",
        "the launch must give {error} a value, or with a tuner, each of its configs",
    ),
    (
        r"Config\.__init__\(\) got an unexpected keyword argument '(\w+)'",
        "",
        "a config holds the kernel's parameters in a dict: "
        'triton.Config({{"{error}": ...}}, num_warps=4)',
    ),
    (
        r"got multiple values for argument|takes \d+ positional arguments? but \d+ were given",
        r"(\w+)\((?:grid\b|\(|lambda\b)",
        launched("{code}"),
    ),
    (
        r"'function' object has no attribute '(?:arg_names|fn|params|signature)'",
        "",
        "@triton.autotune and @triton.heuristics stand above @triton.jit, which comes last, right "
        "above def",
    ),
    (
        r"Cannot make_shape_compatible|Cannot broadcast, (?:rank|the expanded)",
        "",
        "blocks of different shapes meet here: give each the axis it lacks, rows[:, None] and "
        "cols[None, :], in pointers, masks and values alike",
    ),
    (
        r"(Mask|Value|Other) argument cannot be block type if pointer argument is not a block",
        "",
        "the pointer is a single one, but the mask or value is a block: x_ptr + offsets makes a block "
        "of pointers",
    ),
    (
        r"Cannot call @triton\.jit'd outside",
        r"\b(tl\.\w+)\(",
        "{code} is for kernels: a launcher has triton.cdiv, triton.next_power_of_2 and Python's own",
    ),
    (
        r"Cannot call @triton\.jit'd outside|'(?:Autotuner|Heuristics)' object is not callable",
        r"(\w+)\(",
        launched("{code}"),
    ),
    (
        r"Cannot call @triton\.jit'd outside|'(?:Autotuner|Heuristics)' object is not callable",
        "",
        launched("kernel"),
    ),
    (
        r"name '(\w+)' is not defined",
        r"\bgrid\s*=(?!.*\blambda\b).*\b(?:meta|META|args|opt)\[",
        "{error} is what a grid function is given: grid = lambda {error}: (...,)",
    ),
    (
        r"has no attribute '(?:inf|nan)'|name '\w+' is not defined",
        r"\b(?:tl|math|np|numpy)\.(inf|nan)\b",
        'in a kernel this number is written float("{code}")',
    ),
    (r"num_warps must be a power of 2", "", WARPS),
    (
        r"arange's arguments must be of type tl\.constexpr",
        r"tl\.arange\(0,\s*(\w+)\)",
        "tl.arange needs a size that is known when the kernel is compiled, and {code} is not: use "
        "a parameter declared like BLOCK_SIZE: tl.constexpr",
    ),
    (
        r"arange's arguments must be of type tl\.constexpr",
        "",
        "tl.arange needs bounds that are known when the kernel is compiled: start at 0 and add "
        "what depends on the program, pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)",
    ),
    (
        r"Shape element \d+ must have type",
        "",
        "a block's shape must be known when the kernel is compiled: its sizes are parameters "
        "declared like BLOCK_SIZE: tl.constexpr",
    ),
    (
        r"'(?:dict|int|str|tuple|list)' object has no attribute '(?:all_)?kwargs'",
        "",
        CONFIGS.replace("{", "{{").replace("}", "}}"),
    ),
    (
        r"(?:load|store)\(\) got multiple values for argument",
        r"tl\.(?:load|store)\(",
        "tl.load takes a pointer and then the mask, tl.store a pointer, the value and then the mask: "
        "offsets are added to the pointer, x_ptr + offsets",
    ),
    (
        r"got multiple values for keyword argument '(\w+)'|Conflicting meta-parameters: (\w+)",
        "",
        "{error} comes from the autotuner's configs: leave it out of the launch",
    ),
    (
        r"'(?:builtin_function_or_method|torch\.dtype|method_descriptor)' object has no attribute"
        r"|Unsupported function referenced",
        r"\btorch\.(\w+)",
        "torch.{code} does not work inside a kernel: write what tl has, such as tl.float32 or "
        "tl.arange(0, BLOCK_SIZE)",
    ),
    (
        r"'(?:builtin_function_or_method|method)' object has no attribute '(?:type|dtype|scalar)'",
        "",
        "an argument of the launch is a method, not a number: x.stride(0), with its brackets, is one",
    ),
    (
        r"must be Tensor, not tensor|received an invalid combination of arguments",
        r"\btorch\.\w",
        "functions of torch do not run inside a kernel: use operators and functions of tl",
    ),
    (
        r"^AssertionError(?:: |\(\))?$",  # without a word of Triton's
        r"\btl\.dot\(",
        "tl.dot(a, b, acc) adds up in fp32, so acc must be fp32: tl.zeros(..., dtype=tl.float32)",
    ),
    (
        r"'str' object has no attribute 'shape'",
        r"\btl\.dot\(",
        "the third argument of tl.dot is the accumulator: others are given by name, "
        "tl.dot(a, b, acc, input_precision=...)",
    ),
    (
        r"module 'triton\.language' has no attribute '(\w+)'",
        "",
        "tl has no {error}: it is put together from what tl has, such as tl.maximum(x, 0.0), tl.exp, "
        "tl.sum, tl.where and operators",
    ),
    (
        r"accumulator shape is incompatible",
        "",
        "tl.dot(a, b, acc) needs an acc with the rows of a and the columns of b",
    ),
    (
        r"invalid operands of type pointer|cannot add pointers together",
        "",
        "a pointer is not the value it points at: read that with tl.load(x_ptr + offsets) first",
    ),
    (
        r"Unsupported ptr type .*int64.* in .tl",
        r"\b(\w*ptr\w*) \+",
        "{code} is a whole number here: the launch passes the tensor itself, x and not x.data_ptr()",
    ),
    (
        r"Unsupported ptr type .* in .tl\.(load|store)",
        "",
        "the first argument of tl.{error} must be a pointer, such as x_ptr + offsets",
    ),
    (
        r"(max|min)imum\(\) got an unexpected keyword argument 'axis'",
        "",
        "tl.{error}imum compares two blocks lane by lane; along an axis it is tl.{error}(x, axis=0)",
    ),
    (
        r"simultaneous multiple comparison",
        "",
        CHAINED,
    ),
    (
        r"object of type '(?:int|float)' has no len\(\)",
        r"\blen\(",
        "len() counts what a list or a tensor holds, and this is a single number already",
    ),
    (
        r"object of type '\w+' has no len\(\)|(?:list|tuple) index out of range",
        r"\blen\(|\.shape\[",
        "a kernel gets a bare pointer, which knows neither length nor shape nor strides: the launcher "
        "passes them as arguments, such as n_elements",
    ),
    (
        r"'(?:tensor|pointer_type)' object has no attribute '(size|stride|numel|dim|is_contiguous)'",
        "",
        "a kernel gets a bare pointer, which knows neither length nor shape nor strides: the launcher "
        "passes them as arguments, such as n_elements",
    ),
    (
        r"object is not callable",
        r"\.(?:numel|size|dim|stride)\(",
        "a kernel gets a bare pointer, which knows neither length nor shape nor strides: the launcher "
        "passes them as arguments, such as n_elements",
    ),
    (
        r"type of return operand|failed to legalize operation 'tt\.return'",
        "",
        "a kernel returns nothing: it writes its result, tl.store(out_ptr + offsets, values)",
    ),
    (
        r"'tensor' object has no attribute '(\w+)'",
        "",
        "a block has no .{error}: functions of tl work on blocks, such as tl.exp(x), and "
        "x.to(tl.float32) converts one",
    ),
    (
        r"'(?:float|int|constexpr|constexpr_type)' object has no attribute "
        r"'(?:dtype|type|scalar|shape|handle)'",
        r"\btl\.(\w+)\(",
        "tl.{code} works on a block, and here it is given a plain number",
    ),
    (
        r"'(?:float|int|constexpr)' object has no attribute '(to|sum|max|min|exp)'",
        "",
        ".{error}(...) is asked of a plain number, and only a block has it",
    ),
    (
        r"unexpected keyword argument '(?:dim|keepdim)'",
        r"\b(sum|max|min|argmax|argmin|cumsum|softmax|sort|expand_dims)\(",
        "what PyTorch calls dim and keepdim is axis and keep_dims here: tl.{code}(x, axis=0)",
    ),
    (
        r"axis (?!-?\d+ )[\s\S]*out of bounds|_semantic. argument must be provided",
        r"\btl\.(max|min)\(",
        "tl.{code} works along an axis of one block, tl.{code}(x, axis=0); tl.{code}imum(x, y) compares "
        "two blocks lane by lane",
    ),
    (
        r"axis (?!-?\d+ )[\s\S]*out of bounds|_semantic. argument must be provided",
        r"\btl\.(sum|xor_sum|argmax|argmin|cumsum|cumprod|sort|flip)\(",
        "tl.{code} works along an axis of one block, which its second argument names: "
        "tl.{code}(x, axis=0)",
    ),
    (
        r"axis -?\d+ out of bounds|invalid axis -?\d+",
        "",
        "the block has no such axis: axes are counted from 0, and a block made by one tl.arange has "
        "axis 0 alone",
    ),
    (
        r"'(?:generator|range)' (?:object has no attribute|and)|(?:and|of) '(?:generator|range)'"
        r"|class 'range'",
        "",
        RANGE,
    ),
    (r"'tensor' object cannot be interpreted as an integer", r"^(?!\s*for\b).*\brange\(", RANGE),
    (
        r"arange\(\) missing \d+ required positional argument",
        "",
        "tl.arange takes a start and an end: tl.arange(0, BLOCK_SIZE)",
    ),
    (
        r"program_id\(\) missing \d+ required positional argument",
        "",
        "tl.program_id takes the axis that it counts along: tl.program_id(axis=0)",
    ),
    (
        r"arange's range must be a power of 2",
        "",
        POWER,
    ),
    (
        r"'int' object is not iterable|\bzip is not defined|Unsupported|NotImplemented",
        r"\bzip\(|[\[(].*\bfor\b.*\bin\b",
        "a block is not walked through element by element: operators work on all its lanes at once, "
        "as in x + y",
    ),
    (
        r"_semantic. argument must be provided",
        "",
        "a function of tl is used where none can be; does a function that the kernel calls lack "
        "its @triton.jit?",
    ),
]


def plain(error: str, code: str = "", kernel: bool = True) -> str | None:
    """The sentence for an error that comes from a line of code; None if the table has none.

    `kernel`: whether the line is a kernel's, or else the launcher's.
    """
    code = code.split("#")[0]
    for wrong, line, sentence in TABLE if kernel else LAUNCHER + TABLE:
        said, written = re.search(wrong, error), re.search(line, code)
        if said and written:
            return sentence.format(error=_caught(said), code=_caught(written))
    return None


def _caught(match: re.Match) -> str:
    return next((group for group in match.groups() if group), "")


def grid_sizes(grid) -> tuple[int, ...]:
    """A grid as whole numbers; raises TypeError, which says what to write, for anything else."""
    try:
        return tuple(operator.index(grid[at]) for at in range(len(grid)))
    except (TypeError, KeyError, IndexError):
        pass
    sizes = [grid] if isinstance(grid, (int, float)) else grid
    cure = ""
    if type(grid) is int:
        cure = f" such as ({grid},)"
    elif isinstance(sizes, (list, tuple)) and any(isinstance(size, float) for size in sizes):
        cure = " such as (triton.cdiv(n_elements, BLOCK_SIZE),), which divides and rounds up"
    asked = ": does a grid function return it?" if grid is None else ""
    raise TypeError(f"a grid must be a tuple of whole numbers{cure}, not {grid!r}{asked}")


def grid_function(error: Exception, names: list[str], parameters: Sequence[str] = ()) -> str:
    """What is wrong with a grid function that failed when it was given a dict with these names.

    `parameters`: of the kernel, of which some may have no value yet.
    """
    holds = f"meta holds {', '.join(names)}"
    trace = error.__traceback__
    entered = trace is not None and trace.tb_next is not None
    if isinstance(error, TypeError) and not entered:
        return (
            "a grid function takes one argument, the dict of the kernel's arguments: "
            f"grid = lambda meta: (...). {holds}"
        )
    if isinstance(error, KeyError) and error.args and error.args[0] not in names:
        asked = error.args[0]
        if asked in parameters:
            return f"{asked} has no value: neither the launch nor a config of a tuner sets it"
        return f"the grid function asks for meta[{asked!r}]; {holds}"
    unknown = re.search(r"name '(\w+)' is not defined", str(error))
    if isinstance(error, NameError) and unknown and unknown.group(1) in (*names, *parameters):
        asked = unknown.group(1)
        return (
            f"the grid function uses {asked}, which has no value outside of the kernel: "
            f"meta[{asked!r}] holds that of the launch"
        )
    missing = re.search(r"'dict' object has no attribute '(\w+)'", str(error))
    if isinstance(error, AttributeError) and missing:
        asked = missing.group(1)
        return f"meta is a dict: the grid function must ask for meta[{asked!r}]. {holds}"
    return f"the grid function raises {type(error).__name__}: {error}"


def defined(function: object) -> int | None:
    """The line at which a function begins: of its first decorator, or of `def` where it was rewritten."""
    code = getattr(function, "__code__", None)
    return getattr(code, "co_firstlineno", None)
