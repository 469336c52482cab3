"""What a person sees of a job: progress on stderr, a bar on a terminal and plain lines elsewhere."""

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
RATE_OVER_S = 60.0  # the rate that is shown, and the time left, are of this last stretch


class TerminalProgress:
    """Follows a job on `stream`, by default stderr.

    `verbosity` below 0 shows nothing but warnings, above 0 every shard and reject.
    """

    def __init__(self, verbosity: int = 0, stream: TextIO | None = None) -> None:
        self._verbosity = verbosity
        self._stream = stream or sys.stderr
        self._live = verbosity >= 0 and self._stream.isatty()
        self._bar: Any = None
        self._started = time.monotonic()
        self._said = self._started
        self._done = self._total = self._rejected = 0
        self._shards = self._shards_done = 0
        self._fallback = ""
        self._seen: deque[tuple[float, int]] = deque()  # when so many images were done

    def scanning(self, found: int) -> None:
        """Called now and then while folders are read."""
        if self._live:
            self._stream.write(f"\rscanning: {many(found, 'file')}\x1b[K")
            self._stream.flush()
        else:
            self._say_sometimes(f"scanning: {many(found, 'file')}")

    def planned(self, plan: Plan, missing: Mapping[PlannedShard, str]) -> None:
        """Called when the work is known, and again when shards have to be built in another way."""
        self.close()
        again = self._shards > 0  # images were found to be at fault, or pages too small
        self.warn(() if again else plan.warnings)
        self._total = sum(shard.items for shard in missing)
        self._done = 0
        self._shards, self._shards_done = len(plan.shards), len(plan.shards) - len(missing)
        self._seen = deque([(time.monotonic(), 0)])
        done = len(plan.shards) - len(missing)
        resumed = f", {done:,} of them done already" if done else ""
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

            # The time left is told by rate(), as on plain lines: tqdm's own rate forgets too fast for shards.
            form = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {elapsed}{postfix}"
            self._bar = tqdm(total=self._total, file=self._stream, dynamic_ncols=True, bar_format=form)

    def warn(self, warnings: Iterable[str]) -> None:
        """Show what the plan finds odd, a line each."""
        for warning in warnings:
            self._say(label("Warning", "yellow", self._stream) + printable(warning))

    def moved(self, before: str, now: str) -> None:
        """Called when SOURCE is another path than that of the plan, and holds the same files."""
        if self._verbosity >= 0:
            self._say(printable(f"SOURCE {now} holds the same files as {before}, so this is the job that OUT is of"))

    def fallback(self, what: str) -> None:
        """Called each time that another engine takes over; said once."""
        if what != self._fallback:
            self._fallback = what
            self.warn([what])

    def under_way(self, items: int) -> None:
        """Called about twice a second, with the images done in shards that are not in place."""
        self._show(self._done + items)

    def built(self, receipt: Receipt, planned: PlannedShard) -> None:
        """Called for each shard that is in place."""
        self._done += planned.items
        self._shards_done += 1
        self._rejected += len(receipt.rejects)
        if self._verbosity > 0:
            self._say(f"built {planned.name}: {many(receipt.shard.rows, 'row')}, {len(receipt.rejects)} refused")
            for reject in receipt.rejects:
                self._say(f"refused {printable(reject.key)}: {reject.reason}: {printable(reject.detail)}")
        self._show(max(self._done, self._seen[-1][1]))

    def _show(self, done: int) -> None:
        rate = self._rate(done)
        left = f", about {duration((self._total - done) / rate)} left" if rate else ""
        told = f"{rate:,.0f} img/s, {self._rejected:,} refused{left}"
        if self._bar is not None:
            self._bar.n = done
            self._bar.set_postfix_str(told)
        else:
            self._say_sometimes(f"built {done:,} of {many(self._total, 'image')}, {told}")

    def _rate(self, done: int) -> float:
        """Images a second over the last stretch of time."""
        now = time.monotonic()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] > RATE_OVER_S:
            self._seen.popleft()
        since, before = self._seen[0]
        return max(0, done - before) / max(1e-3, now - since)

    def stopped(self) -> str:
        """What to say when the job is interrupted."""
        if not self._shards:
            return "stopped before the plan was saved; the same command begins again"
        shards = f"{self._shards_done} of {many(self._shards, 'shard')} {are(self._shards)} built"
        return f"stopped; {shards}; the same command goes on"

    def close(self) -> None:
        """Take the bar away."""
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
        if self._verbosity >= 0 and time.monotonic() - self._said > PLAIN_EVERY_S:
            self._said = time.monotonic()
            self._say(line)


class TerminalSteps:
    """Follows a command that does one thing after another on `stream`, by default stderr; `quiet` shows nothing."""

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._quiet = quiet
        self._said = time.monotonic()

    def tell(self, what: str, done: int, total: int) -> None:
        """So much of `total` is done of what is at hand."""
        now = time.monotonic()
        if self._quiet or now - self._said < (STEP_EVERY_S if self._live else PLAIN_EVERY_S):
            return
        self._said = now
        line = f"{what}: {done:,} of {total:,}"
        self._stream.write(f"\r{line}\x1b[K" if self._live else f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        """Take the line away."""
        if self._live and not self._quiet:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _by_cause(missing: Mapping[PlannedShard, str]) -> str:
    """`not built yet (train.mindrecord3 and 4 more), pages too small (val.mindrecord0)`."""
    shards: dict[str, list[str]] = {}
    for shard, cause in missing.items():
        shards.setdefault(cause, []).append(shard.name)
    return ", ".join(f"{cause} ({_some(names)})" for cause, names in shards.items())


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHARDS_NAMED} more" if len(names) > SHARDS_NAMED else ""
    return ", ".join(names[:SHARDS_NAMED]) + more
