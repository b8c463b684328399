"""What the judge takes from a child: the shape that an answer must have. Judge side.

A child runs the file under test, so whatever arrives may be forged. Texts are made safe to print,
errors are brought into form, and facts that do not have the shape below are refused whole, before
anyone builds on them.
"""

from __future__ import annotations

MOST_TEXT = 4000  # characters of any one text
MOST_NESTED = 50  # lists and objects inside each other; no lane answers with a tenth of it
MOST_NUMBER = 1 << 63  # whole numbers beyond this count nothing that fits into a machine
ERRORS = (
    "import",
    "launcher",
    "kernel",
    "result",
    "grader",
    "hang",
    "tampering",
)
CARD_ERRORS = (*ERRORS, "card", "no-card")
ON_CARD = ("gpu", "speed", "card talk")  # lanes that have a card to speak of

NUMBER = (int, float)
LINE = (int, None)
EVENT = {"line": LINE, "buffer": str, "program": [int], "count": int, "elements": int}
BUFFER = ("elements", "itemsize", "read", "written", "twice", "conflicts", "loaded_bytes")
TUNER = {"keys": [str], "key_values": [str], "configs": [{"kwargs": dict}]}
TRACE = {
    "result": [{"type": str}],
    "launches": [
        {"kernel": str, "grid": [int], "programs": int, "ran": int, "cut": bool}
        | {"idle": int, "atomics": int, "block": [int], "loads": {str: [int]}, "reach": {str: int}}
        | {"most": {str: int}, "widest": {str: int}, "lines": {str: LINE}}
        | {"gathered": [{str: int}], "stored": [{str: int}]}
    ],
    "sites": [{"line": LINE, "op": str, "lanes": int, "active": int}],
    "outside": [EVENT | {"op": ("load", "store", "atomic"), "side": ("after", "before")}],
    "hazards": [EVENT | {"kind": str}],
    "logic": [int],
    "buffers": [{"name": str, "kind": str, "stored_bytes": int} | dict.fromkeys(BUFFER, int)],
    "foreign": [{"op": str, "line": LINE}],
    "tuners": [TUNER],
    "inputs": [(int, None)],
}
CARD = {
    "result": [{"type": str}],
    "launches": [{"kernel": str}],
    "launched": int,
    "outside": [
        {"buffer": str, "kind": str, "side": ("after", "before"), "count": int, "elements": int}
    ],
    "foreign": [{"op": str, "line": LINE}],
    "tuners": [TUNER],
    "inputs": [(int, None)],
}
TIMES = {
    "kind": ("memory", "matrix"),
    "work": NUMBER,
    "ceiling_work": NUMBER,
    "ms": {str: [float]},
    "unseen": {str: [NUMBER]},
    "early": {str: NUMBER},
    "by_host": [str],
    "late": [bool],
    "sizes": str,
}
TENSOR = {
    "dtype": str,
    "shape": [int],
    "strides": [int],
    "contiguous": bool,
    "device": str,
    "storage": (str, None),
}
ERROR = {"type": str, "message": str, "line": LINE}
CALLED = {"type": str, "shape": [int], "dtype": str, "device": str, "values": [NUMBER]}
TALK = {"softmax": [CALLED]}
ENDED = ({"returned": str, "text": (str, None)}, {"raised": ERROR, "runtime": bool})
DOT = {"result": str, "line": LINE}
CARRIED = {"update": (str, None), "narrowest": (str, None), "line": LINE, "loop_line": LINE}
COMPILED = {
    "kernel": str,
    "target": str,
    "config": ({"kwargs": dict}, None),
    "grid_error": (ERROR, None),
    "ok": (bool, None),
    "error": (ERROR, None),
}
BUILT = {
    "fits": (bool, None),
    "fits_note": (str, None),
    "dots": ([DOT], None),
    "accumulators": ([CARRIED], None),
    "reductions": ([{"type": str, "combine": [str], "line": LINE}], None),
    "tensor_cores": (bool, None),
}


def has(value, shape) -> bool:
    """Whether a JSON value has a shape.

    A type stands for itself, a list for a list of what it holds, a tuple for any of several, a
    dict for an object with at least these keys ({str: x}: any keys), a text or None for itself.
    """
    if isinstance(shape, tuple):
        return any(has(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        if str in shape:
            return all(has(item, shape[str]) for item in value.values())
        return all(key in value and has(value[key], inner) for key, inner in shape.items())
    if isinstance(shape, type):
        if isinstance(value, int) and abs(value) >= MOST_NUMBER:
            return False
        return isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
    return value == shape


def sound(lane: str, facts: dict, blobs: list, tensors: int) -> bool:
    """Whether the facts of a case have the shape that its lane gives them.

    `tensors`: how many tensors the launcher was called with.
    """
    if lane == "compile":
        return has(facts.get("launches"), [COMPILED]) and all(
            has(launch, BUILT) for launch in facts["launches"] if launch["ok"]
        )
    if "talk" in lane:
        return has(facts, TALK) and has(facts, ENDED)
    if lane == "speed":
        return has(facts, ({"refused": str}, TIMES))
    if not has(facts, TRACE if lane == "trace" else CARD) or len(facts["inputs"]) != tensors:
        return False
    places = [place for place in facts["inputs"] if place is not None]
    for result in facts["result"]:
        if result["type"] == "Tensor":
            if not has(result, TENSOR):
                return False
            places += [result[key] for key in ("data", "coverage") if key in result]
    return all(has(place, int) and 0 <= place < len(blobs) for place in places)


def sound_beside_error(lane: str, facts: dict) -> bool:
    """The same of what comes with an error: of that only tuners of kernels that ran are built on."""
    return lane not in ("trace", "gpu") or has(facts.get("tuners") or [], [TUNER])


def error_of(facts: dict, lane: str) -> dict | None:
    """The error that a child reports, brought into form whatever it is; None if there is none."""
    error = facts.get("error")
    if error is None:
        return None
    error = error if isinstance(error, dict) else {}
    known = CARD_ERRORS if lane in ON_CARD else ERRORS
    out: dict = {
        "where": error["where"] if error.get("where") in known else "launcher",
        "type": str(error.get("type", ""))[:80],
        "message": str(error.get("message", "")),
        "line": error["line"] if has(error.get("line"), int) else None,
    }
    if "missing" in error:
        out |= {"missing": str(error["missing"])[:80], "defined": names(error.get("defined"))}
        out["found"] = str(error["found"])[:80] if "found" in error else None
    if out["where"] == "tampering":
        out["names"] = names(error.get("names"))
    for flag in ("fatal", "language"):
        if error.get(flag):
            out[flag] = True
    return out


def names(value) -> list[str]:
    return [str(name)[:80] for name in value[:8]] if isinstance(value, list) else []


def plain(value, left: int = MOST_NESTED):
    """The same JSON value with texts that are safe to print: no control codes, not too long.

    Raises ValueError for one that is nested more than `left` deep.
    """
    if isinstance(value, str):
        if value.isascii() and value.isprintable():
            return value[:MOST_TEXT]
        return "".join(
            c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
            for c in value[:MOST_TEXT]
        )
    if isinstance(value, (list, dict)) and not left:
        raise ValueError("nested too deep")
    if isinstance(value, list):
        return [plain(item, left - 1) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item, left - 1) for key, item in value.items()}
    return value
