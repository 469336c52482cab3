import os
import signal
from collections.abc import Iterator

import pytest

from dataprep.build.interrupts import Interrupted, deferred, raise_on_signals
from schemas.process.stop_signals import stop_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in stop_signals()}
    raise_on_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def defer(steps: list[str], *numbers: int) -> None:
    with deferred():
        with deferred():
            send(*numbers)
            steps.append("inside")
        steps.append("still inside")
    steps.append("never")


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGUSR1, Interrupted)])
def test_signal_is_raised_immediately_or_at_the_end_of_the_deferral(number: int, error: type[BaseException]) -> None:
    with pytest.raises(error):
        send(number)
    steps: list[str] = []
    with pytest.raises(error):
        defer(steps, number)
    assert steps == ["inside", "still inside"]


def test_first_of_several_signals_is_raised_and_no_other() -> None:
    with pytest.raises(Interrupted):
        defer([], signal.SIGTERM, signal.SIGINT)
    with deferred():
        pass
