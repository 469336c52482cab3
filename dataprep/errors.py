"""The errors of dataprep, with their exit codes. A message says what is wrong, where, and what to do next.

DataprepError   1   the job cannot be done
WrongUsage      2   a path on the command line does not exist
DataRejected    3   the data was rejected; a rerun does not help
TryLater       75   a temporary problem: another job holds the lock, the disk is full
"""


class DataprepError(Exception):
    """The job failed; the message is for the user."""

    exit_code = 1


class WrongUsage(DataprepError):
    """A path or name on the command line does not exist."""

    exit_code = 2


class SourceEmpty(DataprepError):
    """SOURCE is empty: a mistake, or a mount that is absent."""


class DataRejected(DataprepError):
    """The data was rejected; nothing is sealed."""

    exit_code = 3


class TryLater(DataprepError):
    """The same command may work later."""

    exit_code = 75
