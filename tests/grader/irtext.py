"""Reading the texts a compiled kernel leaves behind: TTIR, TTGIR, PTX and AMD's assembly.

Text in, plain dicts out; nothing here imports Triton. The texts are no promise of Triton's: they
are read with regular expressions, line by line, and what is not recognised is left out.

Line numbers are those of the file under test. An operation that the compiler took from a function
of Triton's library (``tl.sum``) has the line of the call in the file under test.
"""

from __future__ import annotations

import os
import re

# --------------------------------------------------------------------------------------------
# Locations: `#loc7 = loc("kernel.py":12:8)`, named `loc("acc"(#loc7))`, inlined
# `loc(callsite(#loc3 at #loc7))`, at the end of every operation as `loc(#loc7)`.

_LOC_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$", re.M)
_LOC_PART = re.compile(r'"([^"]*)":(\d+):\d+|(#loc\d*)')


class Lines:
    """Answers which line of ``file`` a location of one module stands for."""

    def __init__(self, text: str, file: str):
        self.file = os.path.realpath(file)
        self.table = dict(_LOC_DEFINITION.findall(text))
        self.known: dict[str, int | None] = {}

    def of(self, location: str) -> int | None:
        """The line for ``#loc7`` or an inline location; None for one outside the file."""
        if location not in self.known:
            self.known[location] = None  # a location that names itself ends here
            self.known[location] = self._search(self.table.get(location, location))
        return self.known[location]

    def _search(self, text: str) -> int | None:
        # In `callsite(callee at caller)` the callee is named first: the innermost place wins.
        for path, line, name in _LOC_PART.findall(text):
            if name:
                found = self.of(name)
                if found is not None:
                    return found
            elif os.path.realpath(path) == self.file:
                return int(line)
        return None

    def at_end_of(self, line: str) -> int | None:
        """The line for an operation, given its text."""
        start = line.rfind(" loc(")
        return self.of(line[start + 5 : -1]) if start >= 0 else None


# --------------------------------------------------------------------------------------------
# Types

_TENSOR = re.compile(r"tensor<((?:\d+x)*)([^,>]+)")
_FLOAT_BITS = {"f64": 64, "f32": 32, "tf32": 32, "f16": 16, "bf16": 16}


def _type(text: str) -> tuple[str, list[int]]:
    """Element type and shape of a printed type; a scalar has the shape []."""
    match = _TENSOR.search(text)
    if match is None:
        return text.strip(), []
    return match.group(2).strip(), [int(size) for size in match.group(1).split("x") if size]


def _float_bits(element: str) -> int:
    """Bits of a floating-point element type, 0 for another type."""
    return 8 if element.startswith("f8E") else _FLOAT_BITS.get(element, 0)


def _split(text: str) -> list[str]:
    """Splits at commas that stand outside of every bracket."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "<([{":
            depth += 1
        elif char in ">)]}" and text[at - 1 : at + 1] != "->":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _bracketed(text: str, start: int) -> str:
    """What stands between the bracket at ``start`` and the one that closes it."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "<([{":
            depth += 1
        elif text[at] in ">)]}" and text[at - 1 : at + 1] != "->":
            depth -= 1
            if depth == 0:
                return text[start + 1 : at]
    return text[start + 1 :]


# --------------------------------------------------------------------------------------------
# TTIR

_NAME = r"%[\w$.-]+"
_USE = re.compile(rf"{_NAME}(?:#\d+)?")
_DEFINITION = re.compile(rf'^({_NAME})(?::(\d+))? = "?([\w.]+)"?(.*)$')
_PRECISION = re.compile(r"inputPrecision = (\w+)")
_AXIS = re.compile(r"axis = (\d+)")

# Operations that keep an element where it is: an accumulator is followed through these alone. A
# broadcast or a reduction ends the way, so the running maximum of an online softmax, which scales
# the accumulator, is not taken for one.
_ELEMENTWISE = re.compile(
    r"arith\.(?:add[fi]|sub[fi]|mul[fi]|divf|negf|truncf|extf|trunci|extsi|sitofp|fptosi|bitcast"
    r"|select|maxnumf|minnumf|maximumf|minimumf|maxsi|minsi)|math\.fma|tt\.fp_to_fp|tt\.clampf"
)
_REDUCTIONS = ("tt.reduce", "tt.scan")
_BRANCHES = ("scf.if", "scf.for", "scf.while")
_DOTS = ("tt.dot", "tt.dot_scaled")
_SUM = re.compile(r"arith\.(?:add[fi]|sub[fi])|math\.fma")
_MAXIMUM = re.compile(r"arith\.(?:max|min)\w+")


class _Op:
    """One value: the operation it comes from, what it is made of, and its printed type."""

    def __init__(self, kind, operands, type_text="", line=None, loop=None):
        self.kind = kind  # "arith.addf"; "carried" for a value that a loop carries
        self.operands = operands
        self.type_text = type_text
        self.line = line
        self.loop = loop  # the innermost loop around it, None outside of loops


class _Region:
    """An open `{`: which operation it belongs to, and what leaves it."""

    def __init__(self, kind, header="", results=(), loop=None):
        self.kind = kind
        self.header = header
        self.results = list(results)
        self.loop = loop  # the innermost loop around it
        self.line: int | None = None
        self.names: dict[str, str] = {}  # names printed inside, and the values they stand for
        self.carried: list[str] = []
        self.conditions: list[str] = []  # what the first part of a while hands to the second
        self.combine: list[str] = []  # operations inside a reduction


class _Ttir:
    """Reads a module line by line. Values have names of their own here: a printed name may be used
    again in the next region."""

    def __init__(self, text: str, file: str):
        self.lines = Lines(text, file)
        self.values: dict[str, _Op] = {}
        self.loops: list[_Region] = []
        self.dots: list[dict] = []
        self.reductions: list[dict] = []
        self.stack: list[_Region] = [_Region("file")]
        for raw in text.splitlines():
            line = raw.strip()
            if line and line[0] != "#":
                self.read(line)

    def read(self, line: str) -> None:
        if line[0] == "^":
            self.block_arguments(line)
            return
        if line[0] == "}":
            self.end_of_region(line)
            return
        definition = _DEFINITION.match(line)
        kind = definition.group(3) if definition else re.split(r"[ (]", line, maxsplit=1)[0]
        rest = definition.group(4) if definition else line
        owner = self.stack[-1]
        if owner.kind in _REDUCTIONS:
            if definition:
                owner.combine.append(kind.split(".")[-1])
            if line.endswith("{"):
                self.stack.append(_Region(kind))
        elif kind == "scf.condition":
            owner.conditions = self.uses(line.split(" : ")[0])[1:]
            self.leave(owner.results, owner.conditions)
        elif kind == "scf.yield":
            names = self.uses(line.split(" : ")[0])
            self.leave(owner.carried, names)
            if owner.kind != "scf.while":
                self.leave(owner.results, names)
        elif line.endswith("{"):
            self.start_of_region(kind, rest, line, definition)
        elif definition:
            self.operation(kind, rest, line, definition)

    def uses(self, text: str) -> list[str]:
        """The values that a text names."""
        found = []
        for name in _USE.findall(text):
            found.append(
                next((r.names[name] for r in reversed(self.stack) if name in r.names), name)
            )
        return found

    def define(self, name: str, op: _Op) -> str:
        value = f"{name} {len(self.values)}"
        self.values[value] = op
        self.stack[-1].names[name] = value
        return value

    def leave(self, results: list[str], names: list[str]) -> None:
        for result, name in zip(results, names, strict=False):
            self.values[result].operands.append(name)

    def loop(self) -> _Region | None:
        return next((region for region in reversed(self.stack) if region in self.loops), None)

    def results(self, definition) -> list[str]:
        name, count = definition.group(1), definition.group(2)
        return [f"{name}#{at}" for at in range(int(count))] if count else [name]

    def operation(self, kind: str, rest: str, line: str, definition) -> None:
        at = self.lines.at_end_of(line)
        body = rest[: rest.rfind(" loc(")] if " loc(" in rest else rest
        operands = self.uses(body)
        type_text = body[body.rfind(" : ") + 3 :] if " : " in body else ""
        for separator in (" -> ", " to "):
            if separator in type_text:
                type_text = type_text[type_text.rfind(separator) + len(separator) :]
        loop = self.loop()
        for name in self.results(definition):
            self.define(name, _Op(kind, operands, type_text, at, loop))
        if kind in _DOTS:
            self.dots.append(_dot(body, kind, at, loop is not None))

    def start_of_region(self, kind: str, rest: str, line: str, definition) -> None:
        loop = self.loop()
        types = _result_types(rest)
        results = []
        for at, name in enumerate(self.results(definition) if definition else []):
            type_text = types[at] if at < len(types) else ""
            results.append(self.define(name, _Op(kind, [], type_text, loop=loop)))
        region = _Region(kind, line, results, loop)
        starts = [(inner, self.uses(start)) for inner, start in _carried(rest, kind)]
        self.stack.append(region)
        if kind not in ("scf.for", "scf.while"):
            return
        self.loops.append(region)
        if kind == "scf.while":
            types = _while_types(rest)
        for at, (inner, start) in enumerate(starts):
            type_text = types[at] if at < len(types) else ""
            op = _Op("carried", start, type_text, loop=region)
            region.carried.append(self.define(inner, op))
        if kind == "scf.for":  # a loop of no turns
            self.leave(results, [start[0] for _, start in starts if start])

    def block_arguments(self, line: str) -> None:
        # In the second part of a while: what the condition handed on.
        region = self.stack[-1]
        if region.kind == "scf.while":
            names = re.findall(rf"({_NAME}):", line)
            for name, source in zip(names, region.conditions, strict=False):
                self.define(name, _Op("carried", [source], loop=region))

    def end_of_region(self, line: str) -> None:
        if line.startswith(("} else", "} do")):
            self.stack[-1].names = {}
            return
        region = self.stack.pop()
        at = self.lines.at_end_of(line)
        if region.kind in _REDUCTIONS:
            self.reductions.append(_reduction(region, line, at))
        region.line = at


def read_ttir(text: str, file: str) -> dict:
    """What a kernel adds up in, and what it multiplies, from its TTIR.

    Returns a dict of three lists of dicts; ``type`` is always that of one element, such as "f32":

    ``accumulators``: values that a loop updates, and sums of products in unrolled code. Each has
      ``kind`` ("carried" by a loop, or "unrolled"), ``update`` ("dot": it sums `tl.dot` products;
      "add", "max" or "other"), ``type``, ``shape`` ([] for a scalar), ``narrowest`` (the smallest
      float type the value passes through on its way round the loop: "f16" when products are
      rounded before an fp32 addition), ``line`` and ``loop_line``.
    ``dots``: every `tl.dot` with ``a``, ``b`` and ``result`` (types), ``shape`` ([M, N, K]),
      ``precision`` ("tf32", "ieee", ...: means something for f32 operands only), ``line`` and
      ``in_loop``.
    ``reductions``: every reduction and scan with ``op`` ("reduce" or "scan"), ``type`` and
      ``shape`` of the (first) input, ``axis``, ``combine`` (names such as "addf"), ``line`` and
      ``in_loop``.
    """
    module = _Ttir(text, file)
    return {
        "accumulators": _accumulators(module.values, module.loops),
        "dots": module.dots,
        "reductions": module.reductions,
    }


def _carried(rest: str, kind: str) -> list[tuple[str, str]]:
    """The (inner name, start value) pairs of a loop's header."""
    start = rest.find("iter_args(") + len("iter_args") if kind == "scf.for" else rest.find("(")
    if start < 0 or (kind == "scf.for" and "iter_args(" not in rest):
        return []
    pairs = [part.split(" = ") for part in _split(_bracketed(rest, start))]
    return [(pair[0].strip(), pair[1].strip()) for pair in pairs if len(pair) == 2]


def _result_types(rest: str) -> list[str]:
    arrow = rest.rfind("-> ")
    if arrow < 0:
        return []
    types = rest[arrow + 3 :].strip()
    if types.startswith("("):
        return _split(_bracketed(types, 0))
    return [types.rstrip("{ ").split(" : ")[0].strip()]


def _while_types(rest: str) -> list[str]:
    """The types of what a while carries: `(...) : (types) -> results {`."""
    colon = rest.find(") : ")
    if colon < 0:
        return []
    types = rest[colon + 4 :]
    if types.startswith("("):
        return _split(_bracketed(types, 0))
    return [types.split(" -> ")[0].strip()]


def _dot(body: str, kind: str, line: int | None, in_loop: bool) -> dict:
    types = body[body.find(" : ") + 3 :]
    operands, _, result = types.partition(" -> ")
    a, _, b = operands.partition(" * ")
    a_element, a_shape = _type(a)
    b_element, _ = _type(b)
    element, shape = _type(result)
    precision = _PRECISION.search(body)
    return {
        "op": kind.split(".")[1],
        "a": a_element,
        "b": b_element,
        "result": element,
        "shape": shape[-2:] + a_shape[-1:],
        "precision": precision.group(1) if precision else "ieee",
        "line": line,
        "in_loop": in_loop,
    }


def _reduction(region: _Region, end: str, line: int | None) -> dict:
    axis = _AXIS.search(region.header)
    inputs = end[end.find(") : ") + 4 :] if ") : " in end else ""
    first = (_split(_bracketed(inputs, 0)) or [""])[0] if inputs.startswith("(") else inputs
    element, shape = _type(first)
    return {
        "op": region.kind.split(".")[1],
        "type": element,
        "shape": shape,
        "axis": int(axis.group(1)) if axis else None,
        "combine": sorted(set(region.combine)),
        "line": line,
        "in_loop": region.loop is not None,
    }


def _way(values: dict[str, _Op], start: str, targets: set[str], carried: bool) -> dict[str, _Op]:
    """The values on elementwise ways from ``start`` back to any of ``targets``, both ends included.

    ``carried``: whether to go on through values that loops carry.
    """
    users: dict[str, list[str]] = {start: []}
    todo, reached = [start], []
    while todo:
        name = todo.pop()
        op = values.get(name)
        if name in targets:
            reached.append(name)
        if op is None:
            continue
        if op.kind in _DOTS:
            # Of a product only what it is added to is a way on.
            onward = op.operands[2:3]
        elif _goes_on(op.kind, carried):
            onward = op.operands
        else:
            onward = []
        for operand in onward:
            if operand not in users:
                users[operand] = []
                todo.append(operand)
            users[operand].append(name)
    way: dict[str, _Op] = {}
    while reached:
        name = reached.pop()
        if name not in way and name in values:
            way[name] = values[name]
            reached.extend(users[name])
    return way


def _goes_on(kind: str, carried: bool) -> bool:
    if kind == "carried":
        return carried
    return kind in _BRANCHES or _ELEMENTWISE.fullmatch(kind) is not None


def _accumulators(values: dict[str, _Op], loops: list[_Region]) -> list[dict]:
    dots = {name for name, op in values.items() if op.kind in _DOTS}
    found = []
    for loop in loops:
        for name in loop.carried:
            fact = _carried_fact(values, dots, loop, name)
            if fact:
                found.append(fact)
    for op in values.values():
        if op.kind == "tt.dot":
            sides = op.operands[2:3]
        elif op.kind == "arith.addf":
            sides = op.operands
        else:
            continue
        # Products on every side, and no loop between them: terms of one written-out sum.
        ways = [_way(values, side, dots, carried=False) for side in sides]
        if not ways or not all(ways):
            continue
        parts = [op, *(part for way in ways for part in way.values())]
        fact = _fact("unrolled", "dot", op, parts, op.line, op.loop)
        if fact not in found:
            found.append(fact)
    return found


def _carried_fact(values, dots, loop, name) -> dict | None:
    """What a loop does to a value it carries; None when it is no floating-point accumulator."""
    carried = values[name]
    if len(carried.operands) < 2:
        return None
    start, after = carried.operands[0], carried.operands[-1]
    way = _way(values, after, {name}, carried=True)
    if name not in way or after == name:
        return None  # replaced in every turn, or never changed
    products = _way(values, after, dots, carried=True)
    update, adding = "other", []
    for kind, names in (("max", _MAXIMUM), ("add", _SUM)):
        lines = [op.line for op in way.values() if names.fullmatch(op.kind)]
        if lines:
            update, adding = kind, lines
    if products:
        turn = {**way, **products}
        update = "dot"
        adding = [op.line for op in turn.values() if op.kind in _DOTS or _SUM.fullmatch(op.kind)]
    else:
        turn = way
    if not _float_bits(_type(carried.type_text)[0]) and update != "dot":
        return None  # counters and pointers
    # A cast before the loop (`start`) or after it does not round the sum.
    turn.pop(start, None)
    line = max((at for at in adding if at is not None), default=loop.line)
    return _fact("carried", update, carried, list(turn.values()), line, loop)


def _fact(kind, update, op, parts, line, loop) -> dict:
    element, shape = _type(op.type_text)
    types = [element, *(_type(part.type_text)[0] for part in parts)]
    floats = [name for name in types if _float_bits(name)]
    return {
        "kind": kind,
        "update": update,
        "type": element,
        "shape": shape,
        "narrowest": min(floats, key=_float_bits, default=element),
        "line": line,
        "loop_line": loop.line if loop else None,
    }


# --------------------------------------------------------------------------------------------
# TTGIR: how the elements of a load or store are dealt out to threads

_LAYOUT_ALIAS = re.compile(r"^(#[\w]+) = #(?:ttg|ttng|triton_gpu)\.(\w+)<\{(.*)\}>", re.M)
_MEMORY_OP = re.compile(
    r"\b(tt\.load|tt\.store|tt\.atomic_rmw|tt\.atomic_cas|ttg\.async_copy_global_to_local"
    r"|amd\w*\.buffer_load\w*|amd\w*\.buffer_store\w*|amd\w*\.buffer_atomic\w*)\b"
)


def read_layouts(text: str, file: str) -> list[dict]:
    """The layouts of global loads and stores, from TTGIR; equal ones once.

    Each has ``op`` ("load", "store", "atomic"), ``type`` (of an element), ``shape``, ``layout``
    ("blocked", "nvidia_mma", ...; None when it is not a plain one), ``order`` (fastest dimension
    first), ``size_per_thread``, ``threads_per_warp`` (None where the layout has none) and ``line``.
    """
    lines = Lines(text, file)
    aliases = {name: (kind, body) for name, kind, body in _LAYOUT_ALIAS.findall(text)}
    found: list[dict] = []
    for raw in text.splitlines():
        match = _MEMORY_OP.search(raw)
        if match is None or raw.startswith("#"):
            continue
        types = re.findall(r"tensor<([^\s,]+), (#.*?)>(?=[\s,)]|$)", raw)
        pointers = [entry for entry in types if "!tt.ptr<" in entry[0]]
        entry = pointers[0] if pointers else (types[-1] if types else None)
        if entry is None:
            continue
        element, shape = _type(f"tensor<{entry[0]}>")
        kind, body = aliases.get(entry[1].strip(), (None, ""))
        name = match.group(1)
        fact = {
            "op": "store" if "store" in name else "atomic" if "atomic" in name else "load",
            "type": element.removeprefix("!tt.ptr<"),
            "shape": shape,
            "layout": kind,
            "order": _numbers(body, "order"),
            "size_per_thread": _numbers(body, "sizePerThread"),
            "threads_per_warp": _numbers(body, "threadsPerWarp"),
            "line": lines.at_end_of(raw),
        }
        if fact not in found:
            found.append(fact)
    return found


def _numbers(body: str, key: str) -> list[int] | None:
    match = re.search(rf"\b{key} = \[([\d, ]*)\]", body)
    return (
        [int(number) for number in match.group(1).split(",") if number.strip()] if match else None
    )


# --------------------------------------------------------------------------------------------
# PTX and AMD's assembly

_PLACE = re.compile(r"([^\s\[\]@/]+):(\d+):\d+")
_PTX_ACCESS = re.compile(r"(?:^|\s)(ld|st|atom|red)\.([\w.:]*\bglobal\b[\w.:]*)")
_PTX_COPY = re.compile(
    r"(?:^|\s)cp\.async\.c[ag]\.shared[\w:]*\.global[^;]*?, (0x[0-9a-f]+|\d+)[,;]"
)
_PTX_MATRIX = re.compile(r"(?:^|\s)((?:w?mma\.sync|wgmma\.mma_async|tcgen05\.mma)[\w.:]*)", re.M)
_PTX_THREADS = re.compile(r"^\.(?:reqntid|maxntid) (\d+)(?:, (\d+))?(?:, (\d+))?", re.M)
_PTX_LOCAL = re.compile(r"\.local .*__local_depot\d+\[(\d+)\]")
_AMD_ACCESS = re.compile(r"^(global|buffer|flat)_(load|store|atomic)_(\w+)")
_AMD_MATRIX = re.compile(r"^\s*(v_s?(?:mfma|mfmac|wmma|swmmac)_\w+)", re.M)
_AMD_BITS = re.compile(
    r"(?:(?P<dwords>dword)(?:x(?P<count>\d))?|b(?P<bits>\d+)|(?P<short>[us]?short|[ui]16|d16)"
    r"|(?P<byte>[us]?byte|[ui]8))"
)


def _count(found: dict, op: str, bits: int | None, line: int | None) -> None:
    key = (op, bits, line)
    found[key] = found.get(key, 0) + 1


def _as_facts(found: dict) -> list[dict]:
    return [
        {"op": op, "bits": bits, "line": line, "count": count}
        for (op, bits, line), count in found.items()
    ]


def read_ptx(text: str, file: str) -> dict:
    """Memory accesses and matrix instructions of a kernel, from its PTX.

    Returns ``accesses``: a list of ``{"op", "bits", "line", "count"}`` with op "load", "store",
    "atomic", "async_copy" or "bulk_copy" (bits None: a whole tile), bits moved by one thread in one
    instruction, and how many such instructions there are; ``mnemonics``: the distinct matrix
    instructions; ``warps`` of one program (None if not printed); ``local``: bytes a thread keeps in
    arrays of its own (not spills).
    """
    found: dict = {}
    name = os.path.basename(file)
    line, in_asm = None, False
    for raw in text.splitlines():
        if "inline asm" in raw:
            in_asm = "begin" in raw
        elif "\t.loc\t" in raw:
            # Inside of inline assembly Triton 3.9 counts the lines of that assembly on top.
            if not in_asm:
                line = _place(raw.partition("//")[2], name)
        elif "global" in raw:
            access = _PTX_ACCESS.search(raw)
            copy = _PTX_COPY.search(raw)
            if copy:
                _count(found, "async_copy", int(copy.group(1), 0) * 8, line)
            elif "cp.async.bulk" in raw or "cp.reduce.async.bulk" in raw:
                if "commit" not in raw and "wait" not in raw:
                    _count(found, "bulk_copy", None, line)
            elif access:
                op = {"ld": "load", "st": "store"}.get(access.group(1), "atomic")
                parts = access.group(2).split(".")
                width = re.match(r"(?:bf|[busf])(\d+)(x2)?$", parts[-1])
                vector = next((int(p[1:]) for p in parts if re.match(r"v\d$", p)), 1)
                bits = (
                    int(width.group(1)) * vector * (2 if width.group(2) else 1) if width else None
                )
                _count(found, op, bits, line)
    threads = _PTX_THREADS.search(text)
    count = 1
    for size in threads.groups() if threads else ():
        count *= int(size or 1)
    return {
        "accesses": _as_facts(found),
        "mnemonics": sorted(set(_PTX_MATRIX.findall(text))),
        "warps": -(-count // 32) if threads else None,
        "local": sum(int(size) for size in _PTX_LOCAL.findall(text)),
    }


def read_amdgcn(text: str, file: str) -> dict:
    """The same facts from AMD's assembly, and the resources it prints.

    Besides the keys of ``read_ptx``: ``registers`` of one thread, ``spills`` and ``stack`` in bytes
    of one thread (None if not printed).
    """
    found: dict = {}
    name = os.path.basename(file)
    line = None
    for raw in text.splitlines():
        raw = raw.strip()
        if raw.startswith(".loc"):
            line = _place(raw.partition(";")[2], name)
        else:
            access = _AMD_ACCESS.match(raw)
            if access:
                width = _AMD_BITS.search(access.group(3))
                _count(found, access.group(2), _amd_bits(width), line)

    def printed(key):
        match = re.search(rf"^\s*\.{key}:\s+(\d+)", text, re.M)
        return int(match.group(1)) if match else None

    spills = printed("vgpr_spill_count")
    threads, wave = printed("max_flat_workgroup_size"), printed("wavefront_size")
    return {
        "accesses": _as_facts(found),
        "mnemonics": sorted(set(_AMD_MATRIX.findall(text))),
        "warps": threads // wave if threads and wave else None,
        "local": 0,
        "registers": printed("vgpr_count"),
        "spills": None if spills is None else 4 * spills,
        "stack": printed("private_segment_fixed_size"),
    }


def _amd_bits(width: re.Match | None) -> int | None:
    if width is None:
        return None
    if width.group("dwords"):
        return 32 * int(width.group("count") or 1)
    if width.group("bits"):
        return int(width.group("bits"))
    return 16 if width.group("short") else 8


def _place(comment: str, name: str) -> int | None:
    """The line of the file under test in `a.py:3:4 @[ b.py:5:6 ]`, innermost first."""
    for (
        file,
        line,
    ) in _PLACE.findall(comment):
        if file == name:
            return int(line)
    return None
