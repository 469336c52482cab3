import signal

from schemas.process.stop_signals import exit_code, stop_signals


def test_sighup_stops_the_program_unless_it_is_ignored_as_under_nohup() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert signal.SIGHUP in stop_signals()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert signal.SIGHUP not in stop_signals()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_every_stop_signal_but_interrupt_exits_as_sigterm_does() -> None:
    codes = {number.name: exit_code(number) for number in stop_signals()}
    assert codes.pop("SIGINT") == 130
    assert set(codes.values()) == {143}
