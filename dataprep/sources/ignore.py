"""The patterns of `--ignore`, which match as those of a .gitignore file do."""

import re

from dataprep.errors import DataprepError
from schemas.names import escape_surrogates, path_to_key

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "xdigit": "0-9a-fA-F",
    "space": r"\s", "blank": r" \t", "punct": r"!-/:-@\[-`{-~",
}  # fmt: skip
_FOLDER = "\0"  # ends the text of a folder: no name can hold it
_TOKEN = re.compile(r"\\(.)|\*\*/|/\*\*$|\*\*|\*|\?|\[[!^]?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|.", re.DOTALL)


class IgnorePatterns:
    """The patterns of one scan. It remembers which of them matched, and what one that did not may have meant.

    A pattern without a slash is compared with each name, one with a slash within it with the path below SOURCE; one
    that ends with a slash matches folders only. Raises DataprepError for a pattern that cannot match.
    """

    def __init__(self, patterns: tuple[str, ...]) -> None:
        compiled = [(pattern, *_compile(pattern)) for pattern in patterns]
        self._of_names = [(pattern, regex) for pattern, anchored, regex in compiled if not anchored]
        self._of_paths = [(pattern, regex) for pattern, anchored, regex in compiled if anchored]
        self._any_name = _any(self._of_names)
        self._any_path = _any(self._of_paths)
        self._order = patterns
        self._near: dict[str, str] = {}
        self._unmatched = dict.fromkeys(patterns)
        self._other_case = self._ignoring_case()

    def match(self, name: str, path: str, is_folder: bool) -> str | None:
        """The first pattern, in the order given, that matches a file or folder; `path` is below SOURCE.

        Both are text as keys.decode_name gives it. They are compared as they are and as they stand in a key, where
        those differ: a user copies either.
        """
        if not self._order:
            return None
        end = _FOLDER if is_folder else ""
        matched = self._matches(path_to_key(name) + end, path_to_key(path) + end)
        if "%" in path:
            matched |= self._matches(escape_surrogates(name) + end, escape_surrogates(path) + end)
        if not matched:
            return None
        if not matched.isdisjoint(self._unmatched):
            self._unmatched = dict.fromkeys(pattern for pattern in self._unmatched if pattern not in matched)
            self._other_case = self._ignoring_case()
        return next(pattern for pattern in self._order if pattern in matched)

    def _matches(self, name: str, path: str) -> set[str]:
        if self._other_case:
            self._look_near(name, path)
        by_name = self._any_name is not None and self._any_name.fullmatch(name)
        by_path = self._any_path is not None and self._any_path.fullmatch(path)
        if not (by_name or by_path):
            return set()
        matched = {pattern for pattern, regex in self._of_names if regex.fullmatch(name)}
        return matched | {pattern for pattern, regex in self._of_paths if regex.fullmatch(path)}

    def unmatched(self) -> list[str]:
        """A sentence for each pattern that has matched nothing."""
        return [f"--ignore '{pattern}' matched nothing{self._advice(pattern)}" for pattern in self._unmatched]

    def _advice(self, pattern: str) -> str:
        if pattern in self._near:
            return f"; there is '{self._near[pattern]}', and case counts"
        if any(pattern == each for each, _ in self._of_paths):
            inner = pattern.removeprefix(".").strip("/")
            at_any_depth = inner if "/" not in inner else f"**/{inner}"
            return f": with a slash in it, it is a path below SOURCE; '{at_any_depth}' matches at any depth"
        return ": no file or folder has such a name" if not pattern.endswith("/") else ": no folder has such a name"

    def _ignoring_case(self) -> list[tuple[str, bool, re.Pattern[str]]]:
        """The patterns without a match, to be tried without regard to case."""
        both = [(False, self._of_names), (True, self._of_paths)]
        return [
            (pattern, anchored, re.compile(regex.pattern, regex.flags | re.IGNORECASE))
            for anchored, pairs in both
            for pattern, regex in pairs
            if pattern in self._unmatched
        ]

    def _look_near(self, name: str, path: str) -> None:
        for pattern, anchored, regex in self._other_case:
            if regex.fullmatch(path if anchored else name):
                found = path.removesuffix(_FOLDER)
                self._near[pattern] = min(found, self._near.get(pattern, found))


def pattern_of(key: str) -> str:
    """The pattern that ignores the folder with this key, and nothing else."""
    escaped = re.sub(r"([*?\[\\])", r"\\\1", key)
    return f"/{escaped}/"


def _any(pairs: list[tuple[str, re.Pattern[str]]]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{regex.pattern})" for _, regex in pairs), re.DOTALL) if pairs else None


def _compile(pattern: str) -> tuple[bool, re.Pattern[str]]:
    """Whether the pattern is compared with whole paths, and its expression; a folder's text ends with its mark."""
    if pattern.startswith("!"):
        raise DataprepError(
            f"--ignore '{pattern}': patterns that start with '!' are not supported; write '\\{pattern}' for a name "
            "that starts so, and narrower patterns where something is to be kept"
        )
    text = escape_surrogates(pattern)
    text = re.sub(r"^(\./+)+", "/", text)
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if text in ("", ".") or ".." in text.split("/"):
        raise DataprepError(
            f"--ignore '{pattern}' names nothing below SOURCE; give a name, or a path relative to SOURCE"
        )
    try:
        return anchored, re.compile(_expression(text) + (_FOLDER if folders_only else f"{_FOLDER}?"), re.DOTALL)
    except re.error as error:
        raise DataprepError(f"--ignore '{pattern}' is no pattern: {error}") from None


def _expression(text: str) -> str:
    """The regular expression of a pattern. `**` is special as a whole component only, as in git."""
    parts = []
    for found in _TOKEN.finditer(text):
        token, at_start = found[0], found.start() == 0 or text[found.start() - 1] == "/"
        if token == "**/" and at_start:
            parts.append("(?:.*/)?")
        elif token == "/**":
            parts.append("/.+")
        elif token[0] == "*":
            parts.append(f"[^/{_FOLDER}]*" + "/" * token.endswith("/"))
        elif token == "?":
            parts.append(f"[^/{_FOLDER}]")
        elif token[0] == "[" and len(token) > 2:
            parts.append(_bracket(token))
        else:
            parts.append(re.escape(token[1:] if len(token) > 1 and token[0] == "\\" else token))
    return "".join(parts)


def _bracket(token: str) -> str:
    """A set such as [a-z], [!a], [[:digit:]_]; it never matches a slash or the mark of a folder. Raises re.error."""
    body = token[1:-1]
    negated = body[0] in "!^"
    body = body[negated:]
    if not body:
        return re.escape(token)
    parts = []
    for found in re.finditer(r"\[:(\w+):\]|\\(.)|(.)", body, re.DOTALL):
        if found[1]:
            if found[1] not in _CLASSES:
                raise re.error(f"unknown class [:{found[1]}:]")
            parts.append(_CLASSES[found[1]])
        elif found[3] == "-" and 0 < found.start() < len(body) - 1:
            parts.append("-")
        else:
            parts.append(re.escape(found[2] or found[3]))
    return f"(?![/{_FOLDER}])[{'^' * negated}{''.join(parts)}]"
