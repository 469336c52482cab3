"""What the documents say of the programs is true, and the two READMEs say the same."""

import re
import runpy
from pathlib import Path

import pytest

from schemas.record import load_schema

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str) -> list[str]:
    """Its code, without the drawings and lists that hold words."""
    return re.findall(r"^```(?:bash|toml|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_command_reference_equals_the_help_of_the_commands() -> None:
    reference = runpy.run_path(str(ROOT / "scripts" / "cli_reference.py"))["reference"]
    assert (ROOT / "docs" / "cli.md").read_text() == reference(), "run: python scripts/cli_reference.py"


def test_the_chinese_readme_has_the_same_commands_in_the_same_order() -> None:
    assert blocks(CHINESE) == blocks(README)


def test_the_chinese_readme_has_the_same_sections_tables_and_names() -> None:
    for mark in (r"^#+ ", r"^\| ", r"^```", r"^- "):
        assert len(re.findall(mark, CHINESE, re.MULTILINE)) == len(re.findall(mark, README, re.MULTILINE)), mark
    assert set(re.findall(r"`([^`\n]+)`", CHINESE)) == set(re.findall(r"`([^`\n]+)`", README))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / link).exists(), link
    for name in re.findall(r"`((?:docs|scripts|benchmarks|tests|schemas|dataprep|trainer)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


def test_schema_in_the_documents_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(
        r"^```json\n(.*?)^```", (ROOT / "docs" / "extending.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "products.json").write_text(example)
    assert load_schema(str(tmp_path / "products.json")).column("image") == "photo"


def test_every_page_is_named_in_the_readme() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in README or f"{page.name}:" in README, page.name


@pytest.mark.parametrize("readme", [README, CHINESE], ids=["english", "chinese"])
def test_a_readme_is_short(readme: str) -> None:
    assert len(readme.splitlines()) <= 150


@pytest.mark.parametrize("readme", [README, CHINESE], ids=["english", "chinese"])
def test_the_pictures_of_a_readme_exist_and_are_small(readme: str) -> None:
    pictures = re.findall(r'!\[[^\]]*\]\(([^)]+)\)|<img src="([^"]+)"', readme)
    assert len(pictures) == 3
    for markdown, html in pictures:
        assert (ROOT / (markdown or html)).stat().st_size < 300_000, markdown or html


def test_both_readmes_show_the_same_pictures() -> None:
    links = r'\((docs/[^)]+\.(?:svg|png))\)|(?:src|href)="([^"]+)"'
    assert re.findall(links, CHINESE) == re.findall(links, README)
