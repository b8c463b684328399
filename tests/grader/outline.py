"""Where in the text of a file things stand that a message can point to. Judge side, for messages alone.

The text is read line by line, as Python's parser can be brought to its knees by what it parses. So
what is written in an unusual way may be missed: then there is no line, or another one is named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

MOST_READ = 1 << 20  # characters
MOST_LINES = 60  # of a function's head, or of one call


class Outline:
    """The lines of one file under test; numbers of lines count from 1, None stands for not found."""

    def __init__(self, text: str):
        self.lines = [_code(line) for line in text[:MOST_READ].splitlines()]

    @classmethod
    def of(cls, file: Path) -> Outline:
        """The outline of a file, an empty one where it cannot be read."""
        try:
            with file.open(errors="replace") as opened:
                return cls(opened.read(MOST_READ))
        except OSError:
            return cls("")

    def line(self, number: int | None) -> str:
        """One line without its comment, "" where there is none."""
        return self.lines[(number or 0) - 1] if 0 < (number or 0) <= len(self.lines) else ""

    def parameters(self, function: str) -> list[str]:
        """The names of a function's parameters; none where it is not found."""
        start = self._found(rf"\s*def {re.escape(function)}\(")
        if start is None:
            return []
        head = " ".join(self.lines[start - 1 : start - 1 + MOST_LINES])
        inside = re.match(r"\s*def \w+\(([^)]*)", head)
        parts = inside[1].split(",") if inside else []
        return [m[0] for part in parts if (m := re.match(r"\w+", part.strip()))]

    def kernels(self) -> list[str]:
        """The names of the functions below a @triton.jit."""
        found, decorated = [], False
        for line in self.lines:
            function = re.match(r"def (\w+)\(", line)
            if function and decorated:
                found.append(function[1])
            if line.strip() and not line.startswith("@"):
                decorated = False
            decorated = decorated or re.match(r"@(?:\w+\.)*jit\b", line) is not None
        return found

    def returns(self, function: str) -> int | None:
        """The line on which a function gives something back."""
        start, end = self._body(function)
        for number in range(start, end):
            if re.match(r"\s+return\s+(?!None\b)[^\s;]", self.line(number)):
                return number
        return None

    def launches(self, function: str) -> int | None:
        """The line on which a kernel is launched."""
        return self._found(rf"\s+.{{,200}}\b{re.escape(function)}\s*\[")

    def only_launch(self) -> int | None:
        """The line of the one launch in the file, None where there are several kernels or launches."""
        kernels = self.kernels()
        line = self.launches(kernels[0]) if len(kernels) == 1 else None
        later = Outline("")
        later.lines = self.lines[line or 0 :]
        return None if line is None or later.launches(kernels[0]) else line

    def configs(self) -> int | None:
        """The line on which the configs of the (first) autotuner begin."""
        start = self._found(r"\s*@(?:\w+\.)*autotune\(")
        for number in range(start or 0, (start or 0) + MOST_LINES):
            named = re.search(r"\bconfigs\s*=\s*(\w+)?|autotune\(\s*(\w+)\s*,", self.line(number))
            if start and named:
                name = named[1] or named[2]
                return (name and self._found(rf"{re.escape(name)}\s*(?::[^=]*)?=[^=]")) or number
        return None

    def misnamed(self, kernel: str = "", names: Sequence[str] = ()) -> str:
        """What to say of a config that sets what its kernel has no parameter for, or ""."""
        known = self.parameters(kernel) if kernel else []
        strange = [name for name in names if name not in known]
        if not known or not strange:
            return ""
        near = get_close_matches(strange[0], [name for name in known if name not in names], 1, 0.5)
        meant = f". Is {near[0]} meant?" if near else ""
        return f"a config sets {strange[0]}, and {kernel} has no parameter of that name{meant}"

    def unknown(self, name: str, line: int | None) -> str:
        """What to say of a name that a launcher does not know but a kernel has as parameter, or ""."""
        kernel = next((k for k in self.kernels() if name in self.parameters(k)), None)
        if kernel is None:
            return ""
        text = f"{name} is a parameter of {kernel}, and the launcher has no such name"
        if not name.isupper() or self.configs() is None:
            return f"{text}: give it a value here first"
        if "grid" not in self.line(line).split("=")[0]:
            return f"{text}. The tuner's configs set it, so the launch leaves it out"
        cure = f'a grid that needs it is a function, grid = lambda meta: (... meta["{name}"] ...,)'
        return f"{text}. The tuner's configs set it, so {cure}"

    def offsets(self, access: int | None) -> int | None:
        """The line that works out the offsets of a load or store on this line; itself, if it does."""
        call = re.search(r"\.(?:load|store)\(\s*(.*)", self.line(access))
        if call is None:
            return access
        pointer = call[1].split(",")[0].strip(" )")
        if not re.fullmatch(r"\w+(?:\s*\+\s*\w+)*", pointer):
            return access
        words = re.findall(r"\w+", pointer)
        for number in range((access or 1) - 1, 0, -1):
            line = self.line(number)
            if re.match(r"\s*def ", line):
                break
            made = re.match(r"\s+(\w+)\s*[-+*]?=[^=]", line)
            if made and made[1] in words:
                return number
        return access

    def sized_by(self, names: Sequence[str], line: int | None) -> bool:
        """Whether this line makes a block whose size is one of these names, such as a config's."""
        size = re.search(r"\btl\.arange\(\s*0\s*,\s*(\w+)\s*\)", self.line(line))
        return size is not None and size[1] in names

    def unmasked(self, access: int | None) -> bool:
        """Whether this line has a load or store of a block that is given no mask, as far as one sees.

        That a kernel masks nothing at all says little: then there may be none to give.
        """
        pieces = re.split(r"\btl\.(load|store)\(", self.line(access))
        if len(pieces) != 3 or not any(re.search(r"\bmask\s*=", line) for line in self.lines):
            return False
        _, name, rest = pieces
        depth, commas = 0, 0
        for at, letter in enumerate(rest):
            depth += (letter in "([{") - (letter in ")]}")
            commas += letter == "," and depth == 0
            if depth < 0:
                named = re.search(r"\b(?:mask|boundary_check)\b", rest[:at])
                return named is None and commas == (0 if name == "load" else 1)
        return False

    def _found(self, pattern: str) -> int | None:
        for number, line in enumerate(self.lines, 1):
            if re.match(pattern, line):
                return number
        return None

    def _body(self, function: str) -> tuple[int, int]:
        """The lines of a function behind its first one: from, up to."""
        start = self._found(rf"\s*def {re.escape(function)}\(")
        if start is None:
            return 0, 0
        deep = len(self.line(start)) - len(self.line(start).lstrip())
        for number in range(start + 1, len(self.lines) + 1):
            line = self.line(number)
            shallow = line.strip() and len(line) - len(line.lstrip()) <= deep
            if shallow and not line.lstrip().startswith(")"):
                return start + 1, number
        return start + 1, len(self.lines) + 1


def _code(line: str) -> str:
    """A line without its comment. (A # inside a text cuts it short, which does no harm here.)"""
    return line.split("#", 1)[0].rstrip()
