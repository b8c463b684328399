"""Signs of deceit in the text of a submission: what no kernel has a use for. Judge side.

They cost no points and prove nothing; an instructor sees them as flags, with the line. The text is
taken apart into words only: Python's parser can be brought to its knees by what it parses, and the
judge must not be.
"""

from __future__ import annotations

import io
import keyword
import tokenize

MOST = 8  # signs that are told
# Words that are a sign wherever they stand outside comments and texts.
WORDS = {
    "looks into the frames of its callers": "_getframe f_back f_locals f_globals tb_frame currentframe",
    "searches the memory of its process": "get_objects get_referrers get_referents __subclasses__",
    "changes or reads functions from inside": "__globals__ __closure__ __code__ __builtins__",
    "listens in on Python": "settrace setprofile addaudithook",
    "runs text as code": "exec eval __import__ importlib",
    "goes past Python": "ctypes cffi mmap",
    "starts processes": "subprocess multiprocessing forkpty posix_spawn",
    "talks to others": "socket urllib requests",
    "knows the grader": "grader pytest unittest sitecustomize",
    "puts a tensor class of its own in place": "as_subclass _make_subclass __torch_function__"
    " __torch_dispatch__ TorchDispatchMode TorchFunctionMode",
    "starts threads": "threading _thread",
    "reaches for names by text": "setattr delattr attrgetter globals locals vars __dict__",
    "reads or writes files": "open fdopen shutil tempfile",
}
# Words that are a sign as a name inside some module: os.fork.
MEMBERS = {
    "starts processes": "fork system popen execv execve execvp spawnv",
    "ends processes": "_exit kill killpg abort",
    "reaches into loaded modules": "modules",
    "reads or writes files": "read_text read_bytes write_text write_bytes listdir walk scandir",
}
# Whose functions no kernel replaces.
OWNERS = {"torch", "triton", "tl", "time", "os", "sys", "json", "builtins", "math", "numpy", "np"}


def _by_word(table: dict[str, str]) -> dict[str, str]:
    return {word: sign for sign, words in table.items() for word in words.split()}


_WORDS, _MEMBERS = _by_word(WORDS), _by_word(MEMBERS)


def signs(source: bytes) -> list[str]:
    """What the text gives away, each with its line: "line 3: runs text as code (exec)"."""
    found: dict[str, None] = {}
    statement: list[str] = []
    for word, line in _words(source):
        before = statement[-1] if statement else ""
        sign = _WORDS.get(word)
        if sign is None and (before == "." or "from" in statement[:1]):
            sign = _MEMBERS.get(word)
        if sign is not None and not (word == "open" and before in (".", "def")):
            found[f"line {line}: {sign} ({word})"] = None
        if word == "=" and (replaced := _replaced(statement)):
            found[f"line {line}: replaces {replaced}"] = None
        if word == "\n":
            statement = []
        else:
            statement.append(word)
    return list(found)[:MOST]


def _replaced(statement: list[str]) -> str:
    """The dotted name that an assignment begins with, if it belongs to somebody else."""
    dotted = len(statement) >= 3 and all(
        word == "." if place % 2 else word.isidentifier() and not keyword.iskeyword(word)
        for place, word in enumerate(statement)
    )
    return "".join(statement) if dotted and statement[0] in OWNERS and len(statement) % 2 else ""


def _words(source: bytes):
    """(word, line) for all names and operators; statements end in a newline."""
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if token.type in (tokenize.NAME, tokenize.OP):
                yield (token.string if token.string != ";" else "\n"), token.start[0]
            elif token.type == tokenize.NEWLINE:
                yield "\n", token.start[0]
    except (SyntaxError, tokenize.TokenError, UnicodeDecodeError, ValueError):
        return  # it is no Python; its import says so
