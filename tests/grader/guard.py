"""Notices when the file under test rewrites what its verdict rests on. Worker side.

Nothing inside one process holds against a file that sets out to deceive: whoever runs code there
can in the end change anything. But what a kernel has no business with is seen when it is done in
the open: a replaced function of the grader, of Triton's language and interpreter, of PyTorch or of
Python itself. The judge relies on none of it for values, which it compares in its own process.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
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
REPLACEABLE = "manual_seed"
CLASSES = {"torch": ("Tensor",), "torch.cuda": ("Event",)}
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
        pass

    for owner in (Class, types.ModuleType("module")):
        at = version(vars(owner))
        before = at.value
        owner.__doc__ = "another value of a name that is there"
        if at.value == before:
            return False
    return True


class Space:
    """A namespace, and what some names stood for in it.

    `own`: it is the grader's, where every name counts, and the code of functions as well.
    """

    def __init__(self, owner: str, namespace, kept: dict[str, object], tagged: bool, own=False):
        self.owner, self.namespace, self.own = owner, namespace, own
        self.version = version(namespace) if tagged else None
        self.seen = self.version.value if self.version else 0
        self.names, self.values = list(kept), list(kept.values())

    def moved(self) -> bool:
        """May anything have changed since this was asked last?"""
        if self.version is None:
            return True
        before, self.seen = self.seen, self.version.value
        return before != self.seen

    @property
    def labels(self) -> list[str]:
        return [f"{self.owner}.{name}" for name in self.names]


def spaces_of(name: str, module, tagged: bool) -> list[Space]:
    """What is watched of a module: nothing of most, otherwise itself and the classes defined in it."""
    own = name == "__main__" or name.startswith("grader")
    inside = own or (name.startswith(PACKAGES) and not name.startswith("triton.language.extra"))
    if not inside and name not in MODULES:
        return []
    namespaces = {name: vars(module)}
    for value in list(vars(module).values()) if inside else ():
        if isinstance(value, type) and value.__module__ == name:
            namespaces[f"{name}.{value.__name__}"] = vars(value)
    for label in CLASSES.get(name, ()):
        namespaces[f"{name}.{label}"] = vars(getattr(module, label))
    return [Space(o, n, kept(o, n, own), tagged, own) for o, n in namespaces.items()]


def kept(owner: str, namespace, own: bool) -> dict[str, object]:
    """What is watched of a namespace: all that can be called; of one's own, all values."""
    found = {
        name: value
        for name, value in dict(namespace).items()
        if callable(value)
        or (own and name[:2] != "__")
        or isinstance(value, (staticmethod, classmethod))
    }
    if owner == "torch":  # setting a default dtype changes torch.Storage, a class
        found = {name: value for name, value in found.items() if not isinstance(value, type)}
        found.pop(REPLACEABLE, None)
    return found


class Guard:
    """What the functions and classes of these modules were when it was made.

    `known`: a guard made before, in this process or in its parent. What has not changed since, nearly
    all, is taken over without being touched, which in a forked child would copy its memory.
    """

    def __init__(self, known: Guard | None = None) -> None:
        self._tagged: bool = known._tagged if known else has_versions()
        self._modules: dict[str, list[Space]] = dict(known._modules) if known else {}
        self._count: int = len(sys.modules)
        fresh = self._count - known._count if known else self._count
        anew = list(itertools.islice(reversed(sys.modules.items()), fresh))[::-1]
        anew += [
            (name, sys.modules[name])
            for name, spaces in self._modules.items()
            if any(space.moved() for space in spaces)
        ]
        for name, module in anew:
            spaces = spaces_of(name, module, self._tagged)
            if spaces:
                self._modules[name] = spaces
        self._spaces = [space for spaces in self._modules.values() for space in spaces]
        self._functions: tuple[list, list, list[str]] = [], [], []  # with their code; labels
        for space in self._spaces:
            for name, value in zip(space.names, space.values, strict=True) if space.own else ():
                if isinstance(value, types.FunctionType):
                    functions, codes, labels = self._functions
                    functions.append(value)
                    codes.append(value.__code__)
                    labels.append(f"{space.owner}.{name}")
        self._seen: list[str] = []

    def hold(self, thing: object, *names: str) -> None:
        """Keep an eye on these attributes of one object too."""
        values = {name: vars(thing)[name] for name in names}
        self._spaces.append(Space(type(thing).__name__, vars(thing), values, tagged=False))

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
            if not space.moved():
                continue
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
