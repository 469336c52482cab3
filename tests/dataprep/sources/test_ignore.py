"""--ignore patterns match as git's do: the cases were compared with `git check-ignore`."""

import pytest

from dataprep.errors import DataprepError
from dataprep.sources.ignore import IgnorePatterns, pattern_of

FOLDERS = {"a", "b", "thumbs", "a/thumbs", "b/a", "b/a/thumbs", "x-y"}


def matches(pattern: str, path: str) -> bool:
    """Whether a walk ignores the path, or a folder above it."""
    patterns = IgnorePatterns((pattern,))
    parts = path.split("/")
    above = ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
    return any(patterns.match(each.rpartition("/")[2], each, each in FOLDERS) for each in above)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("thumbs", ["thumbs/1.jpg", "a/thumbs/1.jpg"], ["a/1.jpg", "Thumbs"]),
        ("thumbs/", ["thumbs/1.jpg", "b/a/thumbs/1.jpg"], ["x-y/thumbs"]),
        ("/thumbs", ["thumbs/1.jpg"], ["a/thumbs/1.jpg"]),
        ("/a/thumbs", ["a/thumbs/1.jpg"], ["b/a/thumbs/1.jpg"]),
        ("./a/thumbs/", ["a/thumbs/1.jpg"], ["b/a/thumbs/1.jpg"]),
        ("./thumbs", ["thumbs/1.jpg"], ["a/thumbs/1.jpg"]),
        ("a/thumbs", ["a/thumbs/1.jpg"], ["b/a/thumbs/1.jpg"]),
        ("thumbs/*", ["thumbs/1.jpg"], ["thumbs", "a/thumbs/1.jpg"]),
        ("*/thumbs", ["a/thumbs/1.jpg"], ["thumbs/1.jpg", "b/a/thumbs/1.jpg"]),
        ("**/thumbs/*", ["thumbs/1.jpg", "b/a/thumbs/1.jpg"], ["b/a/1.jpg", "thumbs"]),
        ("b/**", ["b/1.jpg", "b/a/1.jpg"], ["b", "a/b"]),
        ("b/**/thumbs", ["b/a/thumbs", "b/thumbs"], ["thumbs"]),
        ("*.jpg", ["1.jpg", "b/a/1.jpg"], ["1.JPG", "1.jpgx"]),
        ("a/*.jpg", ["a/1.jpg"], ["a/thumbs/1.jpg", "b/a/1.jpg"]),
        ("?.jpg", ["a/1.jpg"], ["a/12.jpg"]),
        ("[0-9].jpg", ["a/1.jpg"], ["a/x.jpg"]),
        ("[!0-9].jpg", ["a/x.jpg"], ["a/1.jpg"]),
        ("[^0-9].jpg", ["a/x.jpg"], ["a/1.jpg"]),
        ("[[:digit:]_].jpg", ["a/1.jpg", "_.jpg"], ["a/x.jpg"]),
        ("[]x].jpg", ["].jpg", "x.jpg"], ["y.jpg"]),
        (r"\[1].jpg", ["[1].jpg"], ["1.jpg"]),
        (r"\!1.jpg", ["!1.jpg"], ["1.jpg"]),
        ("[1.jpg", ["[1.jpg"], ["1.jpg"]),
        ("#recycle", ["#recycle"], ["recycle"]),
        ("a?", ["ab"], ["a"]),
        ("caf\udce9", ["caf\udce9", "caf%E9"], ["caf"]),
        ("caf%C3%A9.jpg", ["caf%C3%A9.jpg"], ["café.jpg"]),
    ],
)
def test_a_pattern_matches_as_in_a_gitignore_file(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if not matches(pattern, path)] == []
    assert [path for path in no if matches(pattern, path)] == []


@pytest.mark.parametrize("pattern", ["", "/", ".", "./", "!x", "../x", "a/../b", "[z-a]", "[[:nothing:]]"])
def test_pattern_that_can_match_nothing_is_rejected(pattern: str) -> None:
    with pytest.raises(DataprepError, match=r"^--ignore '"):
        IgnorePatterns((pattern,))


def test_first_matching_pattern_is_counted_and_later_matches_give_no_warning() -> None:
    patterns = IgnorePatterns(("*.jpg", "1.*", "2.*"))
    assert patterns.match("1.jpg", "a/1.jpg", is_folder=False) == "*.jpg"
    assert patterns.unmatched() == ["--ignore '2.*' matched nothing: no file or folder has this name"]


def test_pattern_without_a_match_is_named_with_a_suggestion() -> None:
    patterns = IgnorePatterns(("Thumbs", "thumbs/*", "gone/", "here"))
    for name, path in (("thumbs", "cat/thumbs"), ("here", "cat/here")):
        patterns.match(name, path, is_folder=True)
    assert patterns.unmatched() == [
        "--ignore 'Thumbs' matched nothing; 'cat/thumbs' exists, but case matters",
        "--ignore 'thumbs/*' matched nothing: a pattern with a slash is a path below SOURCE; '**/thumbs/*' matches at "
        "any depth",
        "--ignore 'gone/' matched nothing: no folder has this name",
    ]


@pytest.mark.parametrize("key", ["cat", "a*b/[c]", "!x", "back\\slash", "?", "caf%E9"])
def test_the_pattern_of_a_folder_matches_it(key: str) -> None:
    patterns = IgnorePatterns((pattern_of(key),))
    path = key.replace("%E9", "\udce9")
    assert patterns.match(path.rpartition("/")[2], path, is_folder=True)
