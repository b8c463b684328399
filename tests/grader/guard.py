"""Notices when the file under test rewrites what its verdict rests on. Worker side.

Nothing inside one process holds against a file that sets out to deceive: whoever runs code there
can in the end change anything. But what a kernel has no business with is seen when it is done in
the open: a replaced function of the grader, of Triton's language and interpreter, of PyTorch or of
Python itself. The judge relies on none of it for values, which it compares in its own process.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from operator import attrgetter, is_not

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
REPLACEABLE = {"manual_seed"}  # of torch
PACKAGES = ("grader", "triton.language", "triton.runtime")  # with the classes defined in them
MOST = 3  # names that a message gives
CODE = attrgetter("__code__")
VERSION = 24  # bytes into a dict: a number that CPython 3.10 to 3.13 replaces at every change


def version(namespace) -> ctypes.c_uint64:
    """The place in memory of the version of a module's or a class's namespace (PEP 509)."""
    if isinstance(namespace, types.MappingProxyType):
        (namespace,) = gc.get_referents(namespace)
    return ctypes.c_uint64.from_address(id(namespace) + VERSION)


def has_versions() -> bool:
    """Does a change of a module or of a class show in its version, in this Python?"""
    if sys.implementation.name != "cpython":
        return False

    class Class:
        name = 1

    module = types.ModuleType("module")
    module.name = 1
    for owner in (Class, module):
        at = version(vars(owner))
        before = at.value
        owner.name = 2
        if at.value == before:
            return False
    return True


class Space:
    """A namespace, and what some names stood for in it."""

    def __init__(self, owner: str, namespace, kept: dict[str, object], tagged: bool):
        self.owner, self.namespace = owner, namespace
        self.names, self.values = list(kept), list(kept.values())
        self.version = version(namespace) if tagged else None
        self.seen = 0

    @property
    def labels(self) -> list[str]:
        return [f"{self.owner}.{name}" for name in self.names]


class Guard:
    """What the functions and classes of these modules were when it was made."""

    def __init__(self) -> None:
        self._spaces: list[Space] = []
        self._tagged = has_versions()
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
        kept = {
            name: value
            for name, value in dict(namespace).items()
            if callable(value)
            or (own and name[:2] != "__")
            or isinstance(value, (staticmethod, classmethod))
        }
        if owner == "torch":  # setting a default dtype changes torch.Storage, a class
            kept = {name: value for name, value in kept.items() if not isinstance(value, type)}
            for name in REPLACEABLE:
                kept.pop(name, None)
        self._spaces.append(Space(owner, namespace, kept, self._tagged))
        if own:
            for name, value in kept.items():
                if isinstance(value, types.FunctionType):
                    functions, codes, labels = self._functions
                    functions.append(value)
                    codes.append(value.__code__)
                    labels.append(f"{owner}.{name}")

    def hold(self, thing: object, *names: str) -> None:
        """Keep an eye on these attributes of one object too."""
        kept = {name: vars(thing)[name] for name in names}
        self._spaces.append(Space(type(thing).__name__, vars(thing), kept, tagged=False))

    def look(self, *things: object) -> None:
        """Note methods of these objects that are hidden behind attributes of the same name."""
        for thing in things:
            for name in vars(thing):
                if callable(getattr(type(thing), name, None)):
                    self._note(f"{type(thing).__name__}.{name}")

    def changed(self, any=any, map=map, zip=zip, is_not=is_not, code=CODE) -> list[str]:
        """The names of what was replaced at any time at which this was asked.

        It is asked at every launch, about thousands of names: hence only of what has another
        version than last time, and all of a namespace at a stroke. And hence the parameters, which
        are Python's own functions whatever a file makes of them.
        """
        for space in self._spaces:
            if space.version is not None:
                now = space.version.value
                if now == space.seen:
                    continue
                space.seen = now
            get, names, values = space.namespace.get, space.names, space.values
            if any(map(is_not, map(get, names), values)):
                self._note_those_that_differ(zip(map(get, names), values, space.labels))
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
