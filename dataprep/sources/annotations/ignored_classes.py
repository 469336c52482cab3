"""Classes of objects that --ignore leaves out, as it leaves out class folders."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

from dataprep.items import Notice
from dataprep.sources.walk import Tree
from schemas.counting import are, many

_T = TypeVar("_T")


class IgnoredClasses:
    """Compares class names with the patterns of --ignore, and counts the objects that are left out."""

    def __init__(self, tree: Tree) -> None:
        self._patterns = tree.patterns
        self._matched: dict[str, bool] = {}
        self._objects: Counter[str] = Counter()

    def matches(self, name: str) -> bool:
        """Return True if a pattern matches the class."""
        if name not in self._matched:
            self._matched[name] = self._patterns.match(name, name, is_folder=True) is not None
        return self._matched[name]

    def without(self, objects: list[_T], name_of: Callable[[_T], str]) -> list[_T]:
        """Return the objects of the other classes, and count the rest."""
        kept = [one for one in objects if not self.matches(name_of(one))]
        if len(kept) < len(objects):
            self._objects.update(name for one in objects if self.matches(name := name_of(one)))
        return kept

    def notices(self) -> Iterator[Notice]:
        """Yield how many objects of each class are left out."""
        for name, count in sorted(self._objects.items()):
            yield Notice(f"{many(count, 'object')} of the class '{name}' {are(count)} ignored by --ignore")
