"""The page of runs: its content for every state of a run folder, and its behaviour in a browser."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.examples import PHONE, Browser
from tests.trainer.run_folders import CONFIG, epoch, lines, step, write_evaluation, write_run
from trainer.cli import commands
from trainer.errors import TrainerError
from trainer.report import page as contents
from trainer.report.confusions import most_confused, view_evaluation
from trainer.report.evaluated import read_picture
from trainer.report.history import read_run
from trainer.report.page import write_page
from trainer.report.render import printable
from trainer.report.tables import count, duration, figure, share, starts

CLASSES = ("ant", "bee", "cat")
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


def page_of(*runs: Path) -> str:
    return Path(write_page(runs, runs[0] / "page.html").file).read_text()


def words(page: str) -> str:
    """The text of a page, without its tags."""
    return " ".join(re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", page, flags=re.DOTALL).split())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take most of a page's time, and have tests of their own."""
    monkeypatch.setattr(contents, "draw", lambda chart: f"<svg>{chart.title}</svg>")


@pytest.fixture
def run(tmp_path: Path, undrawn: None) -> Path:
    """A complete run with an evaluation."""
    folder = write_run(tmp_path / "first")
    write_evaluation(folder, CLASSES, 30)
    return folder


def test_page_of_a_run_has_its_outcome(run: Path) -> None:
    said = words(page_of(run))
    for part in (
        "Complete.",
        "best val accuracy 90.00 %",
        "trainer run data/flowers --epochs 4 --batch-size 16",
        "peak lr default 0.003 adamw, batch 16, cosine",
        "accuracy 66.67 % 20 of 30 rows",
        "ant predicted bee loss",
    ):
        assert part in said, part
    assert "Missing or damaged files" not in said


def test_page_requests_no_other_file(run: Path) -> None:
    page = page_of(run)
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page.replace("http://www.w3.org", ""))


def test_page_is_written_to_the_run_or_to_the_working_directory_for_several_runs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_page([run], None).file == str(run / "report.html")
    assert write_page([run, write_run(tmp_path / "other")], None).file == str(tmp_path / "report.html")
    assert not list(tmp_path.rglob("*.part"))


def test_page_that_cannot_be_written_is_reported(run: Path) -> None:
    with pytest.raises(TrainerError, match=r"cannot write .*/config.json/page.html: .*; choose another --out"):
        write_page([run], run / "config.json" / "page.html")


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_package_that_is_missing_is_named(run: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TrainerError, match=f"needs the package {package}: pip install jinja2 matplotlib"):
        write_page([run], None)


def test_command_reports_missing_files_and_prints_json(run: Path) -> None:
    (run / "starts.jsonl").unlink()
    done = CliRunner().invoke(commands.cli, ["report", str(run), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["file"], told["runs"][0]["best_accuracy"]) == (str(run / "report.html"), 0.9)
    assert told["missing"]["first"][0]["file"] == "starts.jsonl"
    assert done.stderr.startswith("first: starts.jsonl: ")


@pytest.mark.parametrize("name", ["config.json", "starts.jsonl", "metrics.jsonl", "steps.jsonl", "result.json"])
def test_run_that_lacks_a_file_has_a_page(run: Path, name: str) -> None:
    (run / name).unlink()
    said = words(page_of(run))
    assert ("Missing or damaged files" in said) == (name != "result.json")
    assert ("Unfinished, 4 of 4 epochs done." in said) == (name == "result.json")


def test_run_without_an_epoch_has_a_page(tmp_path: Path, undrawn: None) -> None:
    begun = write_run(tmp_path / "begun", epochs=0, complete=False)
    said = words(page_of(begun))
    assert "Unfinished, 0 of 4 epochs done." in said
    assert f"trainer eval {begun} data/flowers --split val" in said


def test_run_without_val_says_so(tmp_path: Path, undrawn: None) -> None:
    folder = write_run(tmp_path / "run")
    lines(folder / "metrics.jsonl", [epoch(n, val_loss=None, val_accuracy=None) for n in (1, 2)])
    assert "There is no val split, so there is no accuracy." in words(page_of(folder))


def test_nonfinite_loss_is_shown_with_the_images_of_the_batch(tmp_path: Path, undrawn: None) -> None:
    folder = write_run(tmp_path / "run", epochs=1, complete=False)
    lost = {"what": "the loss is nan at step 12", "inputs": "inputs from 0 to 1"}
    (folder / "nonfinite.json").write_text(
        json.dumps(lost | {"images": [{"step": 12, "key": "ant/7.jpg", "label": 0}]})
    )
    said = words(page_of(folder))
    assert "the loss is nan at step 12; inputs from 0 to 1." in said
    assert "ant/7.jpg 12" in said


def test_processes_of_a_run_are_listed_with_changed_settings(run: Path) -> None:
    first = json.loads((run / "starts.jsonl").read_text())
    again = json.loads(json.dumps(first).replace('"CPU"', '"Ascend"')) | {"step": 15}
    lines(run / "starts.jsonl", [first, again])
    assert [row[-1] for row in starts(read_run(run)).rows] == ["", "device Ascend"]
    assert "Resumed" in words(page_of(run))


def test_runs_are_compared_by_results_settings_and_classes(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "second", replace(CONFIG, batch_size=64), epochs=2, complete=False)
    write_evaluation(other, CLASSES, 60)
    write_evaluation(other, CLASSES, 60, split="test")
    said = words(page_of(run, other, write_run(tmp_path / "third")))
    for part in (
        "Comparison of 3 training runs",
        "data wait bottleneck time test accuracy",
        "1 first complete 90.00 % 3 4 0.5",
        "2 second unfinished, 2 of 4 epochs done 70.00 % 2 2 1",
        "batch size 16 64 16",
        "third has no evaluation yet",
    ):
        assert part in said, part
    assert re.search(r"class rows 1 first 2 second ant 10 [\d.]+ % [\d.]+ %", said)


def test_evaluation_of_other_weights_or_other_data_is_marked(tmp_path: Path, undrawn: None) -> None:
    folder = write_run(tmp_path / "run")
    write_evaluation(folder, CLASSES, 30, epoch=2, same_data=False)
    said = words(page_of(folder))
    assert "The evaluated weights are from epoch 2; the best weights are now from epoch 3." in said
    assert "Evaluated on /data/flowers, not on the training dataset." in said


def test_most_confused_pairs_come_first_without_correct_ones(run: Path) -> None:
    (found,) = read_run(run).evaluations
    found.confusion[:] = np.array([[9, 1, 0], [5, 5, 0], [0, 3, 7]])
    assert [(pair.label, pair.predicted, pair.rows, pair.share) for pair in most_confused(found)] == [
        ("bee", "ant", 5, 0.5),
        ("cat", "bee", 3, 0.3),
        ("ant", "bee", 1, 0.1),
    ]


def test_pictures_are_omitted_if_the_page_is_full_or_they_are_missing(run: Path) -> None:
    (found,) = read_run(run).evaluations
    assert view_evaluation(1, read_run(run), found, 1 << 20).without_picture == 0
    one = read_picture(run, "val", 0)
    assert one is not None
    assert view_evaluation(1, read_run(run), found, 2 * len(one)).without_picture == 3
    (run / "eval" / "val" / "worst" / "0002.jpg").unlink()
    view = view_evaluation(1, read_run(run), found, 1 << 20)
    assert [row.picture is None for row in view.worst] == [False, True] + [False] * 3


def test_cells_show_their_sort_value() -> None:
    assert share(0.98765) == {"text": "98.77 %", "value": 0.98765}
    assert figure(0.000123456)["text"] == "0.0001235"
    assert figure(123456.7)["text"] == "123,457"
    assert count(12345)["text"] == "12,345"
    assert [duration(s)["text"] for s in (3.21, 75, 7265)] == ["3.2 s", "1 min 15 s", "2 h 1 min"]
    assert share(None) == {"text": "", "value": ""}


def test_names_cannot_move_the_cursor_or_fill_the_page() -> None:
    assert printable("a\u202eb\n") == "a\\u202eb\\n"
    assert printable("\udcff") == "\\udcff"
    assert len(printable("x" * 9999)) == 301


def test_large_runs_make_a_page_below_the_limit(tmp_path: Path) -> None:
    classes = tuple(f"class {number:04d}" for number in range(1000))
    run = write_run(tmp_path / "run", epochs=200)
    write_evaluation(run, classes, 3000, worst=200)
    lines(run / "steps.jsonl", [step(number) for number in range(1, 20_001)])
    assert write_page([run], None).bytes < 2_000_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs compared whose folders, classes and options are out to break a page."""
    folder = tmp_path_factory.mktemp("hostile")
    config = replace(CONFIG, model=HOSTILE, keep_fp32=(HOSTILE,))
    runs = [write_run(folder / name, config) for name in ("<b onclick=alert(3)>", "plain & simple")]
    for run in runs:
        write_evaluation(run, ("ant", HOSTILE, "{{ 7 * 7 }}"), 30)
        lines(run / "metrics.jsonl", [epoch(1, loss=HOSTILE), epoch(2)])
    lines(
        runs[1] / "starts.jsonl",
        [
            {
                "step": 0,
                "at": HOSTILE,
                "dataset_digest": HOSTILE,
                "software": {HOSTILE: HOSTILE},
                "decisions": [dict.fromkeys(("setting", "asked", "effect", "why"), HOSTILE)],
            }
        ],
    )
    return Path(write_page(runs, folder / "compared.html").file)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(tmp_path_factory.mktemp("single") / "run")
    write_evaluation(folder, CLASSES, 30)
    return Path(write_page([folder], None).file)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [PHONE, 1280])
def test_page_opens_without_errors_requests_or_overflow(single: Path, browser: Browser, width: int, dark: bool) -> None:
    browser.open(single, width, dark)
    assert browser.wait_for("document.readyState === 'complete'")
    assert (browser.errors(), browser.requests(), browser.overflow()) == ([], [], 0)
    assert len(browser.find_all("figure svg")) == 9


def test_hostile_names_are_shown_and_do_nothing(hostile: Path, browser: Browser) -> None:
    driver = browser.open(hostile)
    driver.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    assert (browser.errors(), browser.requests()) == ([], [])
    assert browser.find_all("img[src=x], b[onclick]") == []
    assert HOSTILE in browser.find("#evaluation-1-matrix").text
    assert "{{ 7 * 7 }}" in browser.find("#evaluation-1-matrix").text
    assert "1 <b onclick=alert(3)>" in browser.find(".legend").text


def column(browser: Browser, table: str, number: int) -> list[str]:
    return [cell.text for cell in browser.find_all(f"#{table} tbody tr:not([hidden]) > :nth-child({number})")]


def test_tables_are_sorted_and_searched(single: Path, browser: Browser) -> None:
    browser.open(single)
    before = column(browser, "evaluation-1-classes", 1)
    assert before == list(CLASSES)
    heading = browser.find("#evaluation-1-classes th:nth-child(1) button")
    heading.click()
    heading.click()
    assert column(browser, "evaluation-1-classes", 1) == ["cat", "bee", "ant"]
    browser.find("#run-settings-search").send_keys("peak")
    assert column(browser, "run-settings", 1) == ["peak lr"]
    assert browser.find("#run-settings-count").text.startswith("1 of ")


def test_worst_images_are_enlarged_one_after_the_other(single: Path, browser: Browser) -> None:
    browser.open(single)
    browser.find(".cards .thumb").click()
    caption = browser.find("#enlarged-caption").text
    assert re.fullmatch(r"\w+/\d+\.jpg: \w+, predicted \w+, loss [\d.]+", caption)
    browser.press("ARROW_RIGHT")
    assert browser.find("#enlarged-place").text == "2 of 5"
    assert browser.find("#enlarged-caption").text != caption
    browser.press("ESCAPE")
    assert not browser.find("#enlarged").is_displayed()
