"""The patterns of `--ignore`, with the syntax of .gitignore."""

import re

from dataprep.errors import DataprepError
from schemas.names import escape_surrogates, path_to_key

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "xdigit": "0-9a-fA-F",
    "space": r"\s", "blank": r" \t", "punct": r"!-/:-@\[-`{-~",
}  # fmt: skip
_FOLDER = "\0"  # marks the end of a folder path: no name can contain it
_TOKEN = re.compile(r"\\(.)|\*\*/|/\*\*$|\*\*|\*|\?|\[[!^]?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|.", re.DOTALL)


class IgnorePatterns:
    """The patterns of one scan. They record which of them matched, and near matches of the others.

    A pattern without a slash is compared with names. A pattern with a slash inside is compared with the path below
    SOURCE. A pattern with a slash at the end matches only folders. Raises DataprepError for a pattern that cannot
    match.
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

    def __bool__(self) -> bool:
        return bool(self._order)

    def match(self, name: str, path: str, is_folder: bool) -> str | None:
        """Return the first pattern that matches a file or folder. `path` is below SOURCE.

        Both are text from decode_name. Names are compared as on disk and as in keys, since a user may copy either form.
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
        """Return a sentence for each pattern that matched nothing."""
        return [f"--ignore '{pattern}' matched nothing{self._advice(pattern)}" for pattern in self._unmatched]

    def _advice(self, pattern: str) -> str:
        if pattern in self._near:
            return f"; '{self._near[pattern]}' exists, but case matters"
        if any(pattern == each for each, _ in self._of_paths):
            inner = pattern.removeprefix(".").strip("/")
            at_any_depth = inner if "/" not in inner else f"**/{inner}"
            return f": a pattern with a slash is a path below SOURCE; '{at_any_depth}' matches at any depth"
        return ": no file or folder has this name" if not pattern.endswith("/") else ": no folder has this name"

    def _ignoring_case(self) -> list[tuple[str, bool, re.Pattern[str]]]:
        """Return the patterns without a match, compiled to ignore case."""
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
                near = path.removesuffix(_FOLDER)
                self._near[pattern] = min(near, self._near.get(pattern, near))


def pattern_of(key: str) -> str:
    """Return the pattern that matches only the folder with this key."""
    escaped = re.sub(r"([*?\[\\])", r"\\\1", key)
    return f"/{escaped}/"


def _any(pairs: list[tuple[str, re.Pattern[str]]]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{regex.pattern})" for _, regex in pairs), re.DOTALL) if pairs else None


def _compile(pattern: str) -> tuple[bool, re.Pattern[str]]:
    """Return whether the pattern is compared with paths, and its regular expression."""
    if pattern.startswith("!"):
        raise DataprepError(
            f"--ignore '{pattern}': patterns that start with '!' are not supported; write '\\{pattern}' for such "
            "a name, and use narrower patterns to keep files"
        )
    text = escape_surrogates(pattern)
    text = re.sub(r"^(\./+)+", "/", text)
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if text in ("", ".") or ".." in text.split("/"):
        raise DataprepError(
            f"--ignore '{pattern}' matches nothing below SOURCE; use a name, or a path relative to SOURCE"
        )
    try:
        return anchored, re.compile(_expression(text) + (_FOLDER if folders_only else f"{_FOLDER}?"), re.DOTALL)
    except re.error as error:
        raise DataprepError(f"--ignore '{pattern}' is not a valid pattern: {error}") from None


def _expression(text: str) -> str:
    """Return the regular expression of a pattern. As in git, `**` is special only as a whole path component."""
    parts = []
    for match in _TOKEN.finditer(text):
        token, at_start = match[0], match.start() == 0 or text[match.start() - 1] == "/"
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
    """Return the expression of a set such as [a-z], [!a] or [[:digit:]_], which never matches a slash or _FOLDER."""
    body = token[1:-1]
    negated = body[0] in "!^"
    body = body[negated:]
    if not body:
        return re.escape(token)
    parts = []
    for match in re.finditer(r"\[:(\w+):\]|\\(.)|(.)", body, re.DOTALL):
        if match[1]:
            if match[1] not in _CLASSES:
                raise re.error(f"unknown character class [:{match[1]}:]")
            parts.append(_CLASSES[match[1]])
        elif match[3] == "-" and 0 < match.start() < len(body) - 1:
            parts.append("-")
        else:
            parts.append(re.escape(match[2] or match[3]))
    return f"(?![/{_FOLDER}])[{'^' * negated}{''.join(parts)}]"
