"""Progress on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from dataprep.build.receipt import Receipt
from dataprep.formatting import duration
from dataprep.plan.store import Plan, PlannedShard
from schemas.command_line import label
from schemas.counting import are, many
from schemas.names import printable

PLAIN_EVERY_S = 30.0
STEP_EVERY_S = 0.1
SHARDS_NAMED = 3  # of each cause
RATE_OVER_S = 60.0  # window of the rate and of the time left


class TerminalProgress:
    """Shows the progress of a job on `stream`, by default stderr.

    If `verbosity` is below 0, only warnings are shown. If it is above 0, every shard and every rejected file is shown
    too.
    """

    def __init__(self, verbosity: int = 0, stream: TextIO | None = None) -> None:
        self._verbosity = verbosity
        self._stream = stream or sys.stderr
        self._live = verbosity >= 0 and self._stream.isatty()
        self._bar: Any = None
        self._started = time.monotonic()
        self._last_line = self._started
        self._done = self._total = self._rejected = 0
        self._shards = self._shards_done = 0
        self._fallback = ""
        self._history: deque[tuple[float, int]] = deque()  # (time, images done)

    def scanning(self, found: int) -> None:
        """Show the number of files found so far."""
        if self._live:
            self._stream.write(f"\rscanning: {many(found, 'file')}\x1b[K")
            self._stream.flush()
        else:
            self._say_sometimes(f"scanning: {many(found, 'file')}")

    def planned(self, plan: Plan, missing: Mapping[PlannedShard, str]) -> None:
        """Show the plan. It is called again when shards must be rebuilt."""
        self.close()
        again = self._shards > 0  # images were rejected by the decode check, or pages were too small
        self.warn(() if again else plan.warnings)
        self._total = sum(shard.items for shard in missing)
        self._done = 0
        self._shards, self._shards_done = len(plan.shards), len(plan.shards) - len(missing)
        self._history = deque([(time.monotonic(), 0)])
        done = len(plan.shards) - len(missing)
        resumed = f", {done:,} of them already built" if done else ""
        if self._verbosity >= 0 and again:
            self._say(f"{many(len(missing), 'shard')} left to build: {_by_cause(missing)}")
        elif self._verbosity >= 0:
            images, classes = many(plan.item_count, "image"), many(len(plan.classes), "class", "classes")
            sizes = f"{images} in {classes}, {many(len(plan.shards), 'shard')}"
            self._say(f"planned: {sizes}{resumed}")
            if resumed or len(set(missing.values())) > 1:
                self._say(f"{many(len(missing), 'shard')} left to build: {_by_cause(missing)}")
        if self._live:
            from tqdm import tqdm

            # The postfix has the rate and the time left: tqdm's own average is too short for shards.
            form = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {elapsed}{postfix}"
            self._bar = tqdm(total=self._total, file=self._stream, dynamic_ncols=True, bar_format=form)

    def warn(self, warnings: Iterable[str]) -> None:
        """Show warnings, one per line."""
        for warning in warnings:
            self._say(label("Warning", "yellow", self._stream) + printable(warning))

    def moved(self, before: str, now: str) -> None:
        """Report that SOURCE has another path than in the plan, with the same files."""
        if self._verbosity >= 0:
            self._say(printable(f"SOURCE {now} has the same files as {before}: the job in OUT is resumed"))

    def fallback(self, what: str) -> None:
        """Warn once that another engine is used."""
        if what != self._fallback:
            self._fallback = what
            self.warn([what])

    def under_way(self, items: int) -> None:
        """Update the bar. `items` counts the finished images of unfinished shards.

        It is called about twice per second.
        """
        self._show(self._done + items)

    def built(self, receipt: Receipt, planned: PlannedShard) -> None:
        """Count a finished shard."""
        self._done += planned.items
        self._shards_done += 1
        self._rejected += len(receipt.rejects)
        if self._verbosity > 0:
            self._say(f"built {planned.name}: {many(receipt.shard.rows, 'row')}, {len(receipt.rejects)} rejected")
            for reject in receipt.rejects:
                self._say(f"rejected {printable(reject.key)}: {reject.reason}: {printable(reject.detail)}")
        self._show(max(self._done, self._history[-1][1]))

    def _show(self, done: int) -> None:
        rate = self._rate(done)
        left = f", about {duration((self._total - done) / rate)} left" if rate and done < self._total else ""
        status = f"{rate:,.0f} images/s, {self._rejected:,} rejected{left}"
        if self._bar is not None:
            self._bar.n = done
            self._bar.set_postfix_str(status)
        else:
            self._say_sometimes(f"built {done:,} of {many(self._total, 'image')}, {status}")

    def _rate(self, done: int) -> float:
        """Return images per second over the last RATE_OVER_S seconds."""
        now = time.monotonic()
        self._history.append((now, done))
        while len(self._history) > 2 and now - self._history[1][0] > RATE_OVER_S:
            self._history.popleft()
        since, before = self._history[0]
        return max(0, done - before) / max(1e-3, now - since)

    def stopped(self) -> str:
        """Return the message for an interrupted job."""
        if not self._shards:
            return "stopped before the plan was saved; run the same command to start again"
        shards = f"{self._shards_done} of {many(self._shards, 'shard')} {are(self._shards)} built"
        return f"stopped; {shards}; run the same command to resume"

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        elif self._live:
            self._stream.write("\r\x1b[K")

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.write(line, file=self._stream)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()

    def _say_sometimes(self, line: str) -> None:
        if self._verbosity >= 0 and time.monotonic() - self._last_line > PLAIN_EVERY_S:
            self._last_line = time.monotonic()
            self._say(line)


class TerminalSteps:
    """Shows the progress of successive steps on `stream`, by default stderr. Shows nothing if `quiet`."""

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._quiet = quiet
        self._last_line = time.monotonic()

    def show(self, step: str, done: int, total: int) -> None:
        """Show that `done` of `total` units of `step` are done."""
        now = time.monotonic()
        if self._quiet or now - self._last_line < (STEP_EVERY_S if self._live else PLAIN_EVERY_S):
            return
        self._last_line = now
        line = f"{step}: {done:,} of {total:,}"
        self._stream.write(f"\r{line}\x1b[K" if self._live else f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        """Remove the line."""
        if self._live and not self._quiet:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _by_cause(missing: Mapping[PlannedShard, str]) -> str:
    """Return the shards by cause: `not built yet (train.mindrecord3 and 4 more), pages too small (val.mindrecord0)`."""
    shards: dict[str, list[str]] = {}
    for shard, cause in missing.items():
        shards.setdefault(cause, []).append(shard.name)
    return ", ".join(f"{cause} ({_some(names)})" for cause, names in shards.items())


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHARDS_NAMED} more" if len(names) > SHARDS_NAMED else ""
    return ", ".join(names[:SHARDS_NAMED]) + more
