"""Signals that ask a program to stop, and the exit codes for them.

Schedulers announce the end of a job in several ways: SIGTERM; SIGUSR1 or SIGUSR2 some minutes before (Slurm, SGE);
SIGXCPU for used-up CPU time; SIGHUP when a terminal closes. Both programs treat these signals alike.
"""

import signal

INTERRUPT_EXIT, TERMINATE_EXIT = 130, 143
_ALWAYS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that ask this process to stop; without SIGHUP if it is ignored, as under nohup."""
    hang_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    return (*_ALWAYS, *hang_up)


def exit_code(signum: int) -> int:
    """Return 130 for SIGINT and 143 for all other signals, so that a scheduler sees only two codes."""
    return INTERRUPT_EXIT if signum == signal.SIGINT else TERMINATE_EXIT
