"""Signs of deceit in the text of a submission: what no kernel has a use for. Judge side.

They cost no points and prove nothing; an instructor sees them as flags, with the line. The text is
taken apart into words only: Python's parser can be brought to its knees by what it parses, and the
judge must not be. But the words are those that Python reads: it takes many letters for one and the
same, ends a line at a carriage return, and runs what stands in the braces of an f-string.
"""

from __future__ import annotations

import codecs
import io
import keyword
import re
import tokenize
import unicodedata
from collections.abc import Iterator

MOST = 8  # signs that are told
# Words that are a sign wherever they stand outside comments and texts.
WORDS = {
    "looks into the frames of its callers": "_getframe f_back f_locals f_globals tb_frame currentframe"
    " _current_frames gi_frame cr_frame ag_frame getargvalues getouterframes getinnerframes",
    "searches the memory of its process": "get_objects get_referrers get_referents __subclasses__",
    "changes or reads functions from inside": "__globals__ __closure__ __code__ __builtins__ __self__"
    " __func__ __wrapped__ getclosurevars",
    "listens in on Python": "settrace setprofile addaudithook",
    "runs text as code": "exec eval __import__ importlib __loader__ __spec__ runpy codeop get_type_hints",
    "unpacks what can run code": "pickle marshal shelve dill cloudpickle joblib __reduce__ __reduce_ex__",
    "goes past Python": "ctypes cffi mmap ctypeslib",
    "starts processes": "subprocess multiprocessing forkpty posix_spawn ProcessPoolExecutor",
    "talks to others": "socket urllib requests",
    "asks how it is run": "InterpretedFunction TensorHandle interpreter_builder knobs",
    "knows the grader": "grader pytest unittest sitecustomize __main__",
    "puts a tensor class of its own in place": "as_subclass _make_subclass __torch_function__"
    " __torch_dispatch__ TorchDispatchMode TorchFunctionMode",
    "starts threads": "threading _thread ThreadPoolExecutor asyncio",
    "reaches for names by text": "setattr delattr attrgetter methodcaller globals locals vars __dict__"
    " __getattribute__ getmembers getattr_static",
    "reads or writes files": "open fdopen shutil tempfile fromfile tofile memmap",
}
# Words that are a sign as a name inside some module: os.fork.
MEMBERS = {
    "reaches behind the language's tensors": "handle _semantic _builder",
    "starts processes": "fork system popen execv execve execvp spawnv",
    "ends processes": "_exit kill killpg abort",
    "reaches into loaded modules": "modules",
    "reads or writes files": "read_text read_bytes write_text write_bytes listdir walk scandir",
}
# Whose functions no kernel replaces.
OWNERS = {"torch", "triton", "tl", "time", "os", "sys", "json", "builtins", "math", "numpy", "np"}
# What a name may be looked up in whatever it is: getattr(tl, str(x.dtype).split(".")[1]).
OPEN_MODULES = {
    "torch": ("import torch",),
    "tl": ("import triton . language as tl", "from triton import language as tl"),
}
MOST_LOOKED_AT = 200  # words of a call or a name
# Codes in which a text can spell its letters out.
SPELT_OUT = {"unicode-escape", "raw-unicode-escape", "utf-7", "punycode", "idna", "hz"}
BLOCKS = {"if", "elif", "else", "for", "while", "with", "try", "except", "finally", "def", "class"}
OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")
MOST_NESTED = 5  # f-strings in f-strings


def _by_word(table: dict[str, str]) -> dict[str, str]:
    return {word: sign for sign, words in table.items() for word in words.split()}


_WORDS, _MEMBERS = _by_word(WORDS), _by_word(MEMBERS)
BY_TEXT = _WORDS["setattr"]


def signs(source: bytes) -> list[str]:
    """What the text gives away, each with its line: "line 3: runs text as code (exec)"."""
    found: dict[str, None] = {}
    try:
        codec, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(codec)
    except (SyntaxError, ValueError):
        return []  # it is no Python; its import says so
    if codecs.lookup(codec).name.replace("_", "-") in SPELT_OUT:
        found[f"line 1: spells its letters out ({codec})"] = None
    words = list(_words(text.replace("\r\n", "\n").replace("\r", "\n")))
    opened = {module for module in OPEN_MODULES if _is_itself(module, words)}
    start, depth, imports = 0, 0, False  # of the statement
    for place, (word, line) in enumerate(words):
        before = words[place - 1][0] if place > start else ""
        sign = _WORDS.get(word)
        if sign is None and (before == "." or imports):
            sign = _MEMBERS.get(word)
        if word == "compile" and before not in (".", "def"):
            sign = _WORDS["exec"]
        if word == "getattr":
            sign = _looked_up(
                [word for word, _ in words[place + 1 : place + MOST_LOOKED_AT]], opened
            )
        if sign is not None and not (word == "open" and before == "def"):
            found[f"line {line}: {sign} ({word})"] = None
        if word == "=" and depth == 0:
            statement = [word for word, _ in words[max(start, place - MOST_LOOKED_AT) : place]]
            if replaced := _replaced(statement, words[start][0] in BLOCKS):
                found[f"line {line}: replaces {replaced}"] = None
        if len(found) >= MOST:
            break
        depth += (word in OPENING) - (word in CLOSING)
        imports |= word == "import"
        if word == "\n":
            start, depth, imports = place + 1, 0, False
    return list(found)[:MOST]


def _replaced(statement: list[str], block: bool) -> str:
    """The dotted name that is assigned to at the end of this, if it belongs to somebody else.

    `block`: the statement follows an `if x:` or the like, and so may stand behind a colon.
    """
    start = len(statement)
    while start and (statement[start - 1] == "." or _is_name(statement[start - 1])):
        start -= 1
    dotted, before = statement[start:], statement[start - 1] if start else ""
    begins = before in ("", "=") or (before == ":" and block)
    if begins and len(dotted) >= 3 and dotted[0] in OWNERS and dotted[1] == ".":
        return "".join(dotted)
    return ""


def _is_name(word: str) -> bool:
    return word.isidentifier() and not keyword.iskeyword(word)


def _looked_up(behind: list[str], opened: set[str]) -> str | None:
    """What a getattr with this behind it is a sign of; None for one that gives its name in plain."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in behind:
        depth += (word in OPENING) - (word in CLOSING)
        if not depth:
            break
        if depth == 1 and word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
    if depth or len(parts) < 2:
        return _WORDS["setattr"]
    of, name = parts[0][1:], parts[1]
    plain = re.fullmatch(r"""[rRuU]?("|')([^\\]*)\1""", name[0]) if len(name) == 1 else None
    if plain:
        return _WORDS.get(plain[2]) or _MEMBERS.get(plain[2])
    return None if len(of) == 1 and of[0] in opened else _WORDS["setattr"]


def _is_itself(module: str, words: list[tuple[str, int]]) -> bool:
    """Whether this name is nothing but that module anywhere in the text."""
    texts = [word for word, _ in words]
    for place in (place for place, word in enumerate(texts) if word == module):
        used = texts[place + 1 : place + 2] == ["."] or texts[place - 1 : place] == ["."]
        asked = texts[max(place - 2, 0) : place] == ["getattr", "("]
        since = " ".join(texts[max(place - 5, 0) : place + 1])
        if not (used or asked or since.endswith(OPEN_MODULES[module])):
            return False
    return True


def _words(text: str, nested: int = 0) -> Iterator[tuple[str, int]]:
    """(word, line) for names, operators and texts in quotes; statements end in a newline."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            line = token.start[0]
            if token.type == tokenize.NAME:
                yield unicodedata.normalize("NFKC", token.string), line
            elif token.type == tokenize.OP:
                yield (token.string if token.string != ";" else "\n"), line
            elif token.type == tokenize.STRING:
                yield token.string, line
                # Newer Pythons take an f-string apart themselves.
                prefix = token.string.partition(token.string[-1])[0]
                if "f" in prefix.lower() and nested < MOST_NESTED:
                    inside = "".join(_in_braces(token.string))
                    yield from ((word, line) for word, _ in _words(inside, nested + 1))
            elif token.type == tokenize.NEWLINE:
                yield "\n", line
    except (SyntaxError, tokenize.TokenError, ValueError, SystemError):
        return  # it is no Python; its import says so (SystemError: Python 3.12 on bytes that are 0)


def _in_braces(text: str) -> Iterator[str]:
    """What stands in the braces of an f-string, spaces in between."""
    depth = 0
    for letter in text.replace("{{", " ").replace("\n", " "):
        if letter == "{":
            depth += 1
            yield " "
        elif letter == "}":
            depth -= 1
        elif depth > 0:
            yield letter
