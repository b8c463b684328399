"""Notices when the file under test rewrites what its verdict rests on. Worker side.

Nothing inside one process holds against a file that sets out to deceive: whoever runs code there
can in the end change anything. But what a kernel has no business with is seen when it is done in
the open: a replaced function of the grader, of Triton's language and interpreter, of PyTorch or of
Python itself. The judge relies on none of it for values, which it compares in its own process.
"""

from __future__ import annotations

import sys
import types
from operator import attrgetter, is_not
from typing import Any

MODULES = (
    "builtins",
    "gc",
    "json",
    "json.encoder",
    "numpy",
    "os",
    "socket",
    "struct",
    "time",
    "torch",
    "torch.cuda",
    "torch.utils._python_dispatch",
)
# torch._dynamo, which a file may well import, wraps this one itself. Nothing that is judged draws
# random numbers in this process.
REPLACEABLE = {"torch.manual_seed"}
PACKAGES = ("grader", "triton.language", "triton.runtime")  # with the classes defined in them
MOST = 3  # names that a message gives
CODE = attrgetter("__code__")


class Guard:
    """What the functions and classes of these modules were when it was made."""

    def __init__(self) -> None:
        self._spaces: list[tuple[Any, list[str], list[object], list[str]]] = []
        self._functions: tuple[list, list, list[str]] = [], [], []  # with their code; labels
        self._seen: list[str] = []
        for name, module in list(sys.modules.items()):
            own = name == "__main__" or name.startswith("grader")
            if name in MODULES:
                self._keep(name, vars(module))
            elif own or (
                name.startswith(PACKAGES) and not name.startswith("triton.language.extra")
            ):
                self._keep(name, vars(module), own)
                for value in list(vars(module).values()):
                    if isinstance(value, type) and value.__module__ == name:
                        self._keep(f"{name}.{value.__name__}", vars(value), own)
        torch = sys.modules["torch"]
        self._keep("torch.Tensor", vars(torch.Tensor))
        self._keep("torch.cuda.Event", vars(torch.cuda.Event))

    def _keep(self, owner: str, namespace, own: bool = False) -> None:
        names: list[str] = []
        values: list[object] = []
        for name, value in list(namespace.items()):
            if owner == "torch" and isinstance(value, type):
                continue  # setting a default dtype changes torch.Storage
            if f"{owner}.{name}" in REPLACEABLE:
                continue
            if own or callable(value) or isinstance(value, (staticmethod, classmethod)):
                if name.startswith("__") and not callable(value):
                    continue
                names.append(name)
                values.append(value)
                if own and isinstance(value, types.FunctionType):
                    functions, codes, labels = self._functions
                    functions.append(value)
                    codes.append(value.__code__)
                    labels.append(f"{owner}.{name}")
        self._spaces.append((namespace, names, values, [f"{owner}.{name}" for name in names]))

    def hold(self, thing: object, *names: str) -> None:
        """Keep an eye on these attributes of one object too."""
        labels = [f"{type(thing).__name__}.{name}" for name in names]
        values = [vars(thing)[name] for name in names]
        self._spaces.append((vars(thing), list(names), values, labels))

    def look(self, *things: object) -> None:
        """Note methods of these objects that are hidden behind attributes of the same name."""
        for thing in things:
            for name in vars(thing):
                if callable(getattr(type(thing), name, None)):
                    self._note(f"{type(thing).__name__}.{name}")

    def changed(self, any=any, map=map, zip=zip, is_not=is_not, code=CODE) -> list[str]:
        """The names of what was replaced at any time at which this was asked.

        It is asked at every launch, about thousands of names: hence all of a namespace at a stroke.
        And hence the parameters, which are Python's own functions whatever a file makes of them.
        """
        for namespace, names, values, labels in self._spaces:
            if any(map(is_not, map(namespace.get, names), values)):
                self._note_those_that_differ(zip(map(namespace.get, names), values, labels))
        functions, codes, labels = self._functions
        if any(map(is_not, map(code, functions), codes)):
            self._note_those_that_differ(zip(map(code, functions), codes, labels))
        return self._seen

    def _note_those_that_differ(self, triples) -> None:
        for now, before, label in triples:
            if now is not before:
                self._note(label)

    def _note(self, label: str) -> None:
        if label not in self._seen and len(self._seen) < MOST:
            self._seen.append(label)
