import json
import random
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from dataprep import pipeline
from dataprep.cli.commands import main
from dataprep.errors import DataprepError
from dataprep.images.thumbnails import Sheet, Thumbnailer, thumbnail
from dataprep.job.existing_set import Existing
from dataprep.options import Budget
from dataprep.report import figures
from dataprep.report.origin import find_origin
from dataprep.report.page import report
from dataprep.report.rejected import list_rejected
from dataprep.tools.verify import verify
from schemas.dataset import load_dataset
from schemas.errors import ContractError
from schemas.layout import REJECTS, REPORT, WORK
from tests.dataprep.examples import MUTATIONS, QUICK, Files, Silent, encoded, mutate, picture, shard


def tell(what: str, done: int, total: int) -> None:
    assert 0 <= done <= total, what


def text_of(page: Path) -> str:
    """The page's text, without marks, on one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.read_text(encoding="utf-8")))


def run(*args: Any) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], catch_exceptions=False)


class InProcess(Thumbnailer):
    """Makes thumbnails here: what a child may come to is tested on its own."""

    def __init__(self) -> None:
        self._children = []

    def make(self, wanted: Any, sheet: Sheet) -> Iterator[Any]:
        yield from ((tag, thumbnail(picture, sheet)) for tag, picture in wanted)


FIGURES = ("short_sides", "aspects", "image_bytes", "class_sizes")


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thumbnails are made here, and figures are not drawn."""
    monkeypatch.setattr("dataprep.report.pictures.Thumbnailer", InProcess)
    for name in () if "drawn" in request.fixturenames else FIGURES:
        monkeypatch.setattr(figures, name, lambda _: "<svg></svg>")


@pytest.fixture
def drawn() -> None:
    """Figures are drawn after all."""


ALL = Budget(1.0, True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed set in `out`, of `raw`, with rejected files, a leak, and something that the policy changed."""
    folder = tmp_path_factory.mktemp("report")
    contents = {f"cat/{number:02d}.jpg": picture(number) for number in range(12)}
    contents |= {f"dog/{number:02d}.png": picture(100 + number, "PNG") for number in range(12)}
    contents |= {"dog/00 again.png": contents["dog/00.png"], "cat/grey.gif": picture(7, "GIF")}
    whole = encoded(Image.linear_gradient("L"), "JPEG")
    contents |= {"cat/cut.jpg": whole[: len(whole) // 2], "cat/empty.jpg": b"", "dog/text.jpg": b"not found\n"}
    for name, data in contents.items():
        (folder / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "raw" / name).write_bytes(data)
    shard(folder / "raw", folder / "out", max_rejects=ALL, max_class_loss=ALL, val=0.5)
    return folder


@pytest.fixture
def spoilt(made: Path, tmp_path: Path) -> Path:
    """A copy of the set, which still knows its source."""
    shutil.copytree(made / "out", tmp_path / "out")
    return tmp_path / "out"


def test_page_shows_the_values_of_the_manifest(spoilt: Path) -> None:
    reported = report(spoilt, None, tell)
    assert reported.path == str(spoilt / REPORT)
    assert (reported.rows, reported.classes, reported.refused, reported.listed) == (26, 2, 3, 3)
    assert reported.bytes == (spoilt / REPORT).stat().st_size
    assert reported.missing == []
    said = text_of(spoilt / REPORT)
    dataset = load_dataset(spoilt)
    assert reported.digest == dataset.digest
    for part in (
        dataset.digest,
        "29 found = 26 written + 3 rejected + 0 ignored",
        "All 26 rows, as stored in the dataset. Short side from 16 to 16 pixels",
        "24 × 16 26 100.0%",
        "gif_to_png GIF became PNG 1",
        "truncated the file ends too early 1",
        "1 image is in the dataset more than once: 1 in train and in val or test",
        *(file.sha256 for split in dataset.splits.values() for file in split.shards),
    ):
        assert part in said


def test_page_says_if_nothing_is_wrong(sealed: Path) -> None:
    assert report(sealed, None, tell).missing == []
    said = text_of(sealed / REPORT)
    for part in (
        "42 found = 40 written + 0 rejected + 2 ignored",
        "No file was rejected.",
        "No image is in the dataset more than once.",
        "No image was changed.",
    ):
        assert part in said


@pytest.mark.usefixtures("drawn")
def test_the_same_set_gives_the_same_page(spoilt: Path, tmp_path: Path) -> None:
    report(spoilt, None, tell)
    report(spoilt, tmp_path / "again.html", tell)
    assert (spoilt / REPORT).read_bytes() == (tmp_path / "again.html").read_bytes()


@pytest.mark.usefixtures("drawn")
def test_the_page_loads_nothing_and_names_its_scripts_by_digest(spoilt: Path) -> None:
    report(spoilt, None, tell)
    page = (spoilt / REPORT).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-")
    assert not re.search(r"(src|href|action)=\"?(https?:|//)", page)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_page_is_not_part_of_the_dataset(made: Path, spoilt: Path) -> None:
    before = load_dataset(spoilt).digest
    report(spoilt, None, tell)
    assert verify(spoilt).problems == []
    assert load_dataset(spoilt).digest == before
    assert shard(made / "raw", spoilt, val=0.5).already_complete


@pytest.mark.parametrize("existing", [Existing(overwrite=True), Existing(retry_rejects=True)])
def test_replacing_a_dataset_removes_its_page(made: Path, spoilt: Path, existing: Existing) -> None:
    (spoilt / REPORT).write_text("<!doctype html>")
    options = replace(QUICK, val=0.5, max_rejects=ALL, max_class_loss=ALL)
    assert not pipeline.shard(made / "raw", spoilt, options, Silent(), existing).already_complete
    assert not (spoilt / REPORT).exists()


def test_the_command_on_the_page_makes_the_same_set(files: Files, tmp_path: Path) -> None:
    contents = {f"it's {name}/{number}.jpg": picture(number) for number, name in enumerate("aabbbb")}
    source = files({**contents, "it's a/no.jpg": b"", "it's a/9_thumb.jpg": picture(9)})
    options = {"val": 0.3, "seed": 5, "resize": 8, "num_shards": 2, "ignore": ("*_thumb.jpg",), "max_class_loss": ALL}
    shard(source, tmp_path / "my set", max_rejects=ALL, **options)
    report(tmp_path / "my set", None, tell)
    page = (tmp_path / "my set" / REPORT).read_text()
    command = re.search(r"<pre><code>(.*?)</code></pre>", page)
    assert command is not None
    words = shlex.split(command[1].replace("&#39;", "'").replace("&#34;", '"'))
    assert words[:4] == ["dataprep", "shard", str(source), str(tmp_path / "my set")]
    words[3] = str(tmp_path / "other")
    assert run(*words[1:], "--prove", "off", "--engine", "serial").exit_code == 0
    assert load_dataset(tmp_path / "other").digest == load_dataset(tmp_path / "my set").digest


def test_page_without_the_work_folder_lists_what_is_missing(spoilt: Path) -> None:
    shutil.rmtree(spoilt / WORK)
    reported = report(spoilt, None, tell)
    assert [sentence.split(" ", 1)[0] for sentence in reported.missing] == ["Rejected"]
    said = text_of(spoilt / REPORT)
    assert ".work, which names their folder, is missing" in said
    assert "All 26 rows" in said  # so few that the sample has them all
    assert "dataprep shard SOURCE" in said
    assert reported.pictures == 26 + 2


def test_page_without_the_source_lists_rejected_files_without_pictures(
    made: Path, spoilt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_source = report(spoilt, None, tell)
    monkeypatch.setattr(
        "dataprep.report.page.find_origin", lambda *args: replace(find_origin(*args), source=str(made / "gone"))
    )
    reported = report(spoilt, None, tell)
    assert with_source.pictures == reported.pictures + 1  # the cut one
    assert reported.missing == [f"Rejected files have no pictures: {made / 'gone'} no longer exists"]


def test_a_damaged_set_is_shown_as_far_as_it_can_be_read(sealed: Path) -> None:
    (sealed / "train.mindrecord0.db").unlink()
    (sealed / "train.mindrecord1").write_bytes(b"gone")
    reported = report(sealed, None, tell)
    assert reported.missing == ["train.mindrecord0.db is missing; run dataprep verify"]
    train = load_dataset(sealed).splits["train"].shards
    assert reported.pictures == 40 - train[0].rows - train[1].rows


def test_invalid_manifest_gives_an_error_and_no_page(sealed: Path) -> None:
    (sealed / "dataset.json").write_text((sealed / "dataset.json").read_text().replace('"found": 42', '"found": 43'))
    with pytest.raises(ContractError, match="edited"):
        report(sealed, None, tell)
    assert not (sealed / REPORT).exists()


@pytest.mark.parametrize("pattern", ["*.jsonl", "train.mindrecord*", ".work/*.*", ".work/receipts/*"])
def test_page_is_written_whatever_other_file_is_damaged(
    spoilt: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr("dataprep.report.page.render", lambda *_, **values: str(values))
    chance = random.Random(pattern)
    paths = [path for path in sorted(spoilt.glob(pattern)) if path.is_file()]
    assert paths
    for path in paths:
        original = path.read_bytes()
        for _ in range(MUTATIONS // 40):
            path.write_bytes(mutate(original, chance))
            report(spoilt, spoilt / "page.html", lambda *_: None)
            (spoilt / "page.html").unlink(missing_ok=True)
        path.write_bytes(original)


def test_damaged_list_is_read_up_to_the_damage(spoilt: Path) -> None:
    lines = (spoilt / REJECTS).read_bytes().splitlines(keepends=True)
    (spoilt / REJECTS).write_bytes(lines[0] + b"{}\n" + lines[2])
    reported = report(spoilt, None, tell)
    assert reported.listed == 1
    assert "rejects.jsonl is damaged in line 2; run dataprep verify" in reported.missing


def test_a_key_that_leaves_the_source_is_not_followed(made: Path, spoilt: Path) -> None:
    cut = made / "raw" / "cat" / "cut.jpg"
    line = {"key": f"../raw/cat/{cut.name}", "reason": "truncated", "detail": "", "size": cut.stat().st_size}
    (spoilt / REJECTS).write_text(json.dumps({**line, "key": "cat/cut.jpg"}) + "\n" + json.dumps(line) + "\n")
    report(spoilt, None, tell)
    assert "1 of 1 that decode" in text_of(spoilt / REPORT)


def test_only_an_existing_page_is_overwritten(sealed: Path, tmp_path: Path) -> None:
    report(sealed, tmp_path / "page.html", tell)
    report(sealed, tmp_path / "page.html", tell)
    for out, said in (
        (sealed / "dataset.json", "exists and is not a report page"),
        (sealed, "is a folder"),
        (tmp_path / "nowhere" / "page.html", "is not a folder"),
    ):
        with pytest.raises(DataprepError, match=said):
            report(sealed, out, tell)
    load_dataset(sealed)


def test_missing_package_is_named_with_its_pip_command(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    result = run("report", sealed)
    assert result.exit_code == 1
    assert "needs the package matplotlib: pip install jinja2 matplotlib" in result.stderr
    assert not (sealed / REPORT).exists()


def test_command_prints_the_path_of_the_page(sealed: Path, tmp_path: Path) -> None:
    result = run("report", sealed, "--out", tmp_path / "a.html", "--json")
    told = json.loads(result.stdout)
    assert told["path"] == str(tmp_path / "a.html")
    assert (told["rows"], told["classes"], told["pictures"]) == (40, 2, 32)
    assert f"wrote {tmp_path / 'a.html'}" in run("report", sealed, "--out", tmp_path / "a.html", "--quiet").stdout


# Figures


SIDES = [{1: 1}, {224: 9}, {1: 3, 70_000: 2}, {side: side for side in range(1, 900)}]


@pytest.mark.parametrize("sides", SIDES, ids=["one", "equal", "far apart", "many"])
def test_each_side_is_in_one_bin_between_its_edges(sides: dict[int, int]) -> None:
    edges, counts = figures.side_bins(Counter(sides))
    assert sum(counts) == sum(sides.values())
    for number, (before, after) in enumerate(pairwise(edges)):
        within = [count for side, count in sides.items() if before - 1e-6 <= side < after - 1e-6]
        assert counts[number] == sum(within)


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("sides", SIDES, ids=["one", "equal", "far apart", "many"])
def test_any_sides_can_be_drawn(sides: dict[int, int]) -> None:
    assert "short side, pixels" in figures.short_sides(Counter(sides))


@pytest.mark.usefixtures("drawn")
def test_every_colour_of_a_figure_follows_the_theme() -> None:
    style = resources.files("schemas").joinpath("page", "page.css").read_text()
    for svg in (
        figures.aspects(Counter({-90: 1, 0: 5, 12: 2})),
        figures.image_bytes(Counter({30: 2, 40: 1})),
        figures.class_sizes({"train": [3, 2, 1], "val": [1, 1, 0], "test": [0, 0, 1]}),
    ):
        used = set(re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", svg))
        assert used
        assert {colour for colour in used if colour not in style} == set()


# Rejected files


@pytest.fixture
def many_rejected(sealed: Path) -> Iterator[Path]:
    reasons = ("truncated", "empty")
    lines = ({"key": f"cat/{n:06d}.jpg", "reason": reasons[n % 2], "detail": "\t", "size": n} for n in range(5000))
    (sealed / REJECTS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return sealed


def test_list_that_is_too_long_is_truncated_with_a_note(many_rejected: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep.report.rejected.LIST_BYTES", 1000)
    reported = report(many_rejected, None, tell)
    assert 0 < reported.listed < 5000
    assert f"The page lists {reported.listed:,} of 5,000 rejected files; rejects.jsonl lists all" in reported.missing


def test_rows_omitted_from_a_table_are_counted(spoilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_CLASSES", "MAX_SHARDS", "EXTENSIONS"):
        monkeypatch.setattr(f"dataprep.report.tables.{name}", 1)
    monkeypatch.setattr("dataprep.report.page.MAX_SHEETS", 1)
    reported = report(spoilt, None, tell)
    shards = sum(len(split.shards) for split in load_dataset(spoilt).splits.values())
    assert reported.missing == [
        "Only the 1 largest of 2 classes have pictures",
        "The table of classes has only the 1 largest of 2",
        f"The table of shards has only the first 1 of {shards}",
    ]
    assert "png 13 others 13" in text_of(spoilt / REPORT)


def test_thumbnails_come_from_a_fair_sample_of_each_reason(many_rejected: Path) -> None:
    rejected = list_rejected(many_rejected, load_dataset(many_rejected), 12)
    for reason in ("truncated", "empty"):
        sizes = [reject["size"] for reject in rejected.candidates[reason]]
        assert len(sizes) == 48
        assert 1500 < sum(sizes) / 48 < 3500
    assert rejected.by_label == {0: 5000}
