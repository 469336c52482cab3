"""The user's mistakes and the world's: each says what, where and what to do next, and carries its exit code.

DataprepError   1   the job cannot be done as asked
WrongUsage      2   a path of the command line does not exist
DataRejected     3   the data is not good enough; a rerun will not help
TryLater       75   waiting helps: another job holds the lock, the disk is full
"""


class DataprepError(Exception):
    """The job failed; the text is for the user."""

    exit_code = 1


class WrongUsage(DataprepError):
    """A path or name on the command line is of nothing that there is."""

    exit_code = 2


class SourceEmpty(DataprepError):
    """SOURCE holds nothing to read: a mistake, unless it is a mount that is away."""


class DataRejected(DataprepError):
    """The data was refused; nothing is sealed."""

    exit_code = 3


class TryLater(DataprepError):
    """The same command may work later."""

    exit_code = 75
