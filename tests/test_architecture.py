"""The rooms of the house and who may enter which."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("schemas", "dataprep", "trainer")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
STDLIB = set(sys.stdlib_module_names)
ALLOWED = {
    "schemas": {"schemas"},
    "dataprep": {"schemas", "dataprep", "click", "tqdm", "numpy", "PIL"},
    "trainer": {"schemas", "trainer", "mindspore", "numpy", "click", "tqdm"},
}
ALLOWED_IN = {
    "dataprep/build/decode_check/child.py": {"mindspore"},
    "dataprep/build/engines/dask.py": {"distributed"},
    "dataprep/report/figures.py": {"matplotlib"},
    "dataprep/report/page.py": {"jinja2"},
    "trainer/plan/preview.py": {"PIL"},
    "trainer/report/figures.py": {"matplotlib"},
    "trainer/report/page.py": {"jinja2"},
    "trainer/nn/models/zoo.py": {"mindcv"},
    "trainer/feed/picture.py": {"PIL"},
}
# From the bottom up: a module may import those of its own level and below.
DATAPREP_LEVELS = [
    {
        *("errors", "item", "keys", "faults", "software", "labels"),
        *("native_stderr", "memory", "decode_deadline", "originals", "interrupts", "disk"),
    },
    {"mindrecord", "images", "sources", "place", "lock"},
    {"options", "plan", "plan_store"},
    {"receipt", "encode", "reading", "quarantine"},
    {"worker", "workdir", "opening", "prove", "prover", "proof", "decoder_child", "duplicates", "progress"},
    {"row_digests"},
    {"engines", "absence", "swap"},
    {"target", "build", "seal", "existing", "target_state"},
    {"pipeline", "verify", "inspection", "sample", "damage"},
    {"repair", "salvage"},
    {"report", "preview", "forecast", "terminal", "show", "params"},
    {"program"},
    {"cli"},
    {"__main__"},
]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)} has a relative import"
            inside = node.module in PACKAGES  # from dataprep.plan import planner: the module is the name
            yield from (f"{node.module}.{alias.name}" if inside else str(node.module) for alias in node.names)


def names(path: Path) -> set[str]:
    return {imported.split(".")[0] for imported in imports(path)} - STDLIB


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_package_imports_only_what_its_room_allows(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert names(path) <= ALLOWED[package] | ALLOWED_IN.get(name(path), set())


@pytest.mark.parametrize("path", sorted((ROOT / "dataprep" / "mindrecord").glob("*.py")), ids=name)
def test_mindrecord_needs_the_standard_library_only(path: Path) -> None:
    assert names(path) <= {"schemas", "dataprep"}
    assert {i for i in imports(path) if i.startswith("dataprep")} <= {
        f"dataprep.mindrecord.{module}" for module in ("format", "rows", "index", "reader", "writer")
    }


def test_pillow_is_used_on_outside_data_in_one_place_of_each_program() -> None:
    users = {name(path) for path in MODULES if "PIL" in names(path)}
    modules = ("check", "pixels", "policy", "depth", "tiff/messages", "tiff/listener")
    images = {f"dataprep/images/{module}.py" for module in modules}
    # software.py asks it for versions; sample.py and preview.py draw.
    drawing = {"dataprep/tools/sample.py", "dataprep/build/software.py", "trainer/plan/preview.py"}
    assert users == {*images, "trainer/feed/picture.py", *drawing}


@pytest.mark.parametrize("path", [p for p in MODULES if name(p).startswith("dataprep/")], ids=name)
def test_imports_point_down(path: Path) -> None:
    def level(module: str) -> int:
        return next(i for i, modules in enumerate(DATAPREP_LEVELS) if module in modules)

    own = path.relative_to(ROOT / "dataprep").parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for imported in imports(path):
        parts = imported.split(".")
        if parts[0] == "dataprep":
            assert level(parts[1]) <= level(own), f"{name(path)} imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_terminal_rooms_print_or_exit(path: Path) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
    if path.name in ("cli.py", "program.py", "__main__.py", "terminal.py", "progress.py", "prove.py"):
        return
    assert not calls & {"print", "click.echo", "click.secho", "sys.exit", "exit"}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and path.name != "cli.py":
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 60, f"{name(path)}: {node.name}"


def test_what_differs_by_device_sits_in_one_module() -> None:
    marks = ("set_device", "device_context", "set_context")
    users = {name(p) for p in MODULES if any(mark in p.read_text() for mark in marks)}
    assert users <= {"trainer/device/context.py"}
