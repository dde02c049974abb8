"""Which names are dead in a file: what they stood for is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

from scripts.parts.python.attributes import Place
from scripts.parts.python.modules import Module, join

# Of a call: the index of a removed parameter and its name.
Parameters = Mapping[tuple[str, str], Iterable[tuple[int, str]]]


@dataclass(slots=True)
class Gone:
    """What is gone of the whole project."""

    is_missing: Callable[[str, str], bool]  # a module, or a name in it
    members: Set[str] = frozenset()  # fields that no class has any more
    places: Set[Place] = frozenset()  # uses of attributes that are gone, in the file
    parameters: Parameters = field(default_factory=dict)  # by module and function, or "" and method
    parts: Set[str] = frozenset()  # tests marked with one of these go
    is_gone_string: Callable[[str], bool] = lambda _: False  # a route or setting


@dataclass(slots=True)
class Names:
    """The dead names of a file, by scope: "name", "function.name" or "Class.method.name"."""

    module: Module
    dead: set[str]
    scope: str = ""
    kinds: list[str] = field(default_factory=list)  # "class" or "function", of each open scope

    def enter(self, name: str, kind: str) -> None:
        self.scope = join(self.scope, name)
        self.kinds.append(kind)

    def leave(self) -> None:
        self.scope = self.scope.rpartition(".")[0]
        self.kinds.pop()

    def is_dead(self, name: str) -> bool:
        """Whether a name that is used here is dead, by the innermost scope that binds it."""
        scope, kinds = self.scope, list(self.kinds)
        while True:
            visible = scope == self.scope or not kinds or kinds[-1] == "function"
            if visible and join(scope, name) in self.dead:
                return True
            if not scope or (visible and name in self.module.bindings.get(scope, ())):
                return False
            scope = scope.rpartition(".")[0]
            kinds.pop()

    def kill(self, name: str) -> None:
        """Mark a name of this scope as dead."""
        self.dead.add(join(self.scope, name))

    def is_dead_member(self, name: str) -> bool:
        """Whether a name is a dead one of the class whose method this is."""
        scope, _, _ = self.scope.rpartition(".")
        return self.kinds[-2:] == ["class", "function"] and join(scope, name) in self.dead
