"""Read data.yaml, the description of a YOLO dataset."""

from pathlib import Path
from typing import Any, NamedTuple

from dataprep.errors import DataprepError, DataRejected
from dataprep.items import Notice
from dataprep.sources.annotations.files import is_text, read_whole
from dataprep.sources.split_folders import NAMES

_READ = ("names", "nc", "path", "kpt_shape")


class DataYaml(NamedTuple):
    """The content of data.yaml: class names by number in order, paths by split, the folder, and notices."""

    names: dict[int, str]
    splits: dict[str, list[str]]
    path: str
    has_keypoints: bool
    notices: list[Notice]


def read_data_yaml(path: Path) -> DataYaml:
    """Read the file at `path`. Raises DataRejected if it does not describe a dataset."""
    values = _parse(path)
    splits: dict[str, list[str]] = {}
    for key, value in values.items():
        if key in NAMES and value not in ("", "null", "~"):
            paths = [str(one) for one in value] if isinstance(value, list) else [str(value)]
            if isinstance(value, dict) or not all(map(is_text, paths)) or NAMES[key] in splits:
                raise _wrong(path, f"'{key}' must be a path or a list of paths, once for each split")
            splits[NAMES[key]] = paths
    if not splits:
        raise _wrong(path, "it has no path under 'train', 'val' or 'test'")
    names = _names(path, values.get("names"))
    count = values.get("nc")
    if count is not None and count != str(len(names)):
        raise _wrong(path, f"nc is {count!r:.20}, but there are {len(names)} names")
    folder = values.get("path", "")
    if not isinstance(folder, str):
        raise _wrong(path, "'path' must be a path")
    twice = sorted({name for name in names.values() if list(names.values()).count(name) > 1})
    notices = [Notice(f"{path.name} has several classes named '{name}'; they are one class") for name in twice]
    return DataYaml(names, splits, folder, "kpt_shape" in values, notices)


def _parse(path: Path) -> dict[str, object]:
    """Return the keys that are read. Values are text, lists of text, or dicts of text: a name `no` is not False."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise DataprepError(
            f"reading {path} needs PyYAML; install it with: pip install 'mindspore-dataprep[yaml]'"
        ) from None
    try:
        root = yaml.compose(read_whole(path), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _wrong(path, f"it is not valid YAML ({' '.join(str(error).split())})") from None
    if _kind(root) != "mapping":
        raise _wrong(path, "it has no keys")
    pairs = _pairs(path, root)
    return {key: _value(path, node) for key, node in pairs.items() if key in _READ or key in NAMES}


def _kind(node: object) -> str:
    """Return `scalar`, `sequence` or `mapping` for a node of PyYAML."""
    return str(getattr(node, "id", ""))


def _content(node: object) -> Any:
    """Return the text of a scalar, the nodes of a sequence, or the pairs of nodes of a mapping."""
    return getattr(node, "value", None)


def _pairs(path: Path, mapping: object) -> dict[str, object]:
    """Return the nodes of a mapping by key. Raises DataRejected if a key stands twice."""
    pairs: dict[str, object] = {}
    for key, node in _content(mapping):
        name = _scalar(path, key)
        if name in pairs:
            raise _wrong(path, f"the key '{name:.40}' stands twice")
        pairs[name] = node
    return pairs


def _value(path: Path, node: object) -> object:
    if _kind(node) == "sequence":
        return [_scalar(path, item) for item in _content(node)]
    if _kind(node) == "mapping":
        return {key: _scalar(path, item) for key, item in _pairs(path, node).items()}
    return _scalar(path, node)


def _scalar(path: Path, node: object) -> str:
    if _kind(node) != "scalar":
        raise _wrong(path, "it has more levels than a list of paths or names")
    return str(_content(node))


def _names(path: Path, value: object) -> dict[int, str]:
    """Return class names by number, in the order of the numbers."""
    if isinstance(value, list):
        value = {str(number): name for number, name in enumerate(value)}
    if not isinstance(value, dict) or not value:
        raise _wrong(path, "'names' must be a list, or a name for each number")
    if not all(number.isascii() and number.isdigit() and is_text(name) for number, name in value.items()):
        raise _wrong(path, "'names' must have a name for each number")
    names = {int(number): name for number, name in value.items()}
    return {number: names[number] for number in sorted(names)}


def _wrong(path: Path, problem: str) -> DataRejected:
    return DataRejected(f"{path}: {problem}; correct it, or name another file with --annotations FILE")
