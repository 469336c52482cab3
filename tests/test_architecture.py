"""The architecture, held by tests: which package may import which, and what a file may do."""

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import ROOT

PACKAGES = ("schemas", "dataprep", "trainer")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
STDLIB = set(sys.stdlib_module_names)
ALLOWED = {
    "schemas": {"schemas"},
    "dataprep": {"schemas", "dataprep", "click", "tqdm", "numpy", "PIL"},
    "trainer": {"schemas", "trainer", "mindspore", "numpy", "click", "tqdm"},
}
ALLOWED_IN = {
    "schemas/command_line.py": {"click"},
    "schemas/page.py": {"jinja2"},
    "dataprep/build/decode_check/child.py": {"mindspore"},
    "dataprep/build/engines/dask.py": {"distributed"},
    "dataprep/sources/records/parquet.py": {"pyarrow"},
    "dataprep/storage/remote.py": {"fsspec"},
    "dataprep/sources/annotations/data_yaml.py": {"yaml"},
    "dataprep/report/figures.py": {"matplotlib"},
    "dataprep/sources/archives/streams.py": {"zstandard"},
    "trainer/plan/preview.py": {"PIL"},
    "trainer/report/figures.py": {"matplotlib"},
    "trainer/nn/models/zoo.py": {"mindcv"},
    "trainer/feed/picture.py": {"PIL"},
    "schemas/images/pixels.py": {"PIL", "numpy"},
    "schemas/images/depth.py": {"PIL", "numpy"},
}
# From the bottom up. A package may import those of lower levels; only the names that everything shares import each
# other within a level.
LEVELS = {
    "dataprep": [
        {"errors", "items", "options", "formatting", "storage"},
        {"images", "mindrecord"},
        {"sources", "plan"},
        {"build"},
        {"job"},
        {"pipeline"},
        {"tools"},
        {"report"},
        {"cli"},
        {"__main__"},
    ],
    "trainer": [
        {"errors", "signals", "config", "decisions"},
        {"feed"},
        {"device"},
        {"runs"},
        {"nn"},
        {"plan"},
        {"training"},
        {"loop"},
        {"evaluation", "doctor"},
        {"report"},
        {"cli"},
        {"__main__"},
    ],
}
MOST_ENTRIES = 16
# Private by spelling only: documented names of namedtuple and os.
PUBLIC = {"_replace", "_make", "_asdict", "_fields", "_exit"}
# What a library offers in no other way.
PRIVATE_OF_LIBRARIES = {"dataprep/build/engines/local.py": {"_processes"}, "trainer/nn/cast.py": {"_cells"}}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)} has a relative import"
            inside = node.module in PACKAGES  # from dataprep import plan: the module is the name
            yield from (f"{node.module}.{alias.name}" if inside else str(node.module) for alias in node.names)


def roots(path: Path) -> set[str]:
    return {imported.split(".")[0] for imported in imports(path)} - STDLIB


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_file_imports_only_the_libraries_of_its_package(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert roots(path) <= ALLOWED[package] | ALLOWED_IN.get(name(path), set())


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_down(path: Path) -> None:
    package, *inside = path.relative_to(ROOT).parts
    own = inside[0].removesuffix(".py")
    if package not in LEVELS or own == "__init__":
        return
    levels = LEVELS[package]

    def level(part: str) -> int:
        return next(i for i, parts in enumerate(levels) if part in parts)

    for imported in imports(path):
        parts = imported.split(".")
        if parts[0] == package and parts[1] != own:
            down = level(parts[1]) < level(own) or (level(own) == 0 == level(parts[1]))
            assert down, f"{name(path)} imports {imported}"


def test_every_package_and_top_level_file_has_its_level() -> None:
    for package, levels in LEVELS.items():
        found = {p.stem for p in (ROOT / package).iterdir() if p.name not in ("__init__.py", "__pycache__")}
        assert found == set().union(*levels)


@pytest.mark.parametrize("path", sorted((ROOT / "dataprep" / "mindrecord").glob("*.py")), ids=name)
def test_mindrecord_needs_the_standard_library_only(path: Path) -> None:
    assert roots(path) <= {"schemas", "dataprep"}
    assert all(i.startswith("dataprep.mindrecord.") for i in imports(path) if i.startswith("dataprep"))


def test_a_folder_has_few_entries() -> None:
    for package in PACKAGES:
        for folder in (ROOT / package, *(p for p in (ROOT / package).rglob("*") if p.is_dir())):
            entries = {p.name for p in folder.iterdir()} - {"__init__.py", "__pycache__"}
            assert len(entries) <= MOST_ENTRIES, f"{name(folder)} has {len(entries)} entries"


@pytest.mark.parametrize("path", [p for p in MODULES if p.name == "__init__.py"], ids=name)
def test_an_init_file_holds_a_table_or_nothing(path: Path) -> None:
    body = ast.parse(path.read_text()).body
    assert ast.get_docstring(ast.parse(path.read_text())), f"{name(path)} does not say what its package is for"
    tables = [node for node in body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    assert tables or len(body) == 1, f"{name(path)} re-exports names"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_private_names_stay_in_their_file(path: Path) -> None:
    tree = ast.parse(path.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.target.id for node in ast.walk(tree) if isinstance(node, ast.AnnAssign) and hasattr(node.target, "id")}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in PACKAGES:
            assert not [a.name for a in node.names if a.name.startswith("_")], f"{name(path)}:{node.lineno}"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            known = own | PUBLIC | PRIVATE_OF_LIBRARIES.get(name(path), set())
            assert node.attr in known, f"{name(path)}:{node.lineno} uses {node.attr}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_importing_a_file_does_nothing(path: Path) -> None:
    """Importing a module only defines names: no call for its effect, no attribute of another module set."""
    for node in ast.parse(path.read_text()).body:
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        targets = node.targets if isinstance(node, ast.Assign) else []
        sets = any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets)
        effect = call or sets
        assert not effect, f"{name(path)}:{node.lineno}: {ast.unparse(node)}"


def test_any_is_rare_outside_the_files_that_call_mindspore() -> None:
    lines = uses = 0
    for path in MODULES:
        if not roots(path) & {"mindspore", "mindcv", "distributed", "matplotlib"}:
            text = path.read_text()
            lines += text.count("\n")
            uses += sum(isinstance(n, ast.Name) and n.id == "Any" for n in ast.walk(ast.parse(text)))
    assert uses <= 0.008 * lines, f"{uses} uses of Any in {lines} lines"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_command_line_prints_or_exits(path: Path) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
    if "cli" in path.parts or path.name == "__main__.py" or name(path) == "dataprep/build/decode_check/child.py":
        return
    assert not calls & {"print", "click.echo", "click.secho", "sys.exit", "exit"}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and path.name != "commands.py":
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 60, f"{name(path)}: {node.name}"


def test_device_specific_calls_are_in_one_file() -> None:
    marks = ("set_device", "device_context", "set_context")
    users = {name(p) for p in MODULES if any(mark in p.read_text() for mark in marks)}
    assert users <= {"trainer/device/context.py"}


TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_no_test_file_imports_a_test_file_or_conftest(path: Path) -> None:
    ours = [i for i in imports(path) if i.startswith("tests.")]
    assert not [i for i in ours if i.rsplit(".", 1)[-1].startswith(("test_", "conftest"))]


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_no_test_replaces_a_private_name(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            targets = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
            names = [str(target).rsplit(".", 1)[-1] for target in targets]
            assert not [n for n in names if n.startswith("_") and not n.startswith("__")], f"line {node.lineno}"


def top_imports(path: Path) -> Iterator[str]:
    """The modules that importing this file imports."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names))


@functools.cache
def loads_mindspore(path: Path) -> bool:
    for imported in top_imports(path):
        file = ROOT / Path(*imported.split(".")).with_suffix(".py")
        if imported.split(".")[0] == "mindspore" or (file.is_file() and loads_mindspore(file)):
            return True
    return False


@pytest.mark.parametrize("path", [p for p in TESTS if p.name.startswith("test_")], ids=name)
def test_a_test_file_that_loads_mindspore_is_slow(path: Path) -> None:
    if loads_mindspore(path):
        assert "\npytestmark = pytest.mark.slow\n" in path.read_text()


def test_every_test_file_is_collected(pytestconfig: pytest.Config) -> None:
    """Pytest's default leaves out folders named build."""
    assert "build" not in pytestconfig.getini("norecursedirs")
