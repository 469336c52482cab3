"""Exceptions of the contract, and the disk errors that may be temporary."""

import errno


class ContractError(Exception):
    """The files on disk break the contract; the text says what, where and what to do next."""


class MissingFolder(ContractError):
    """The path of a dataset is not a folder: wrong usage."""

    exit_code = 2


# A disk or network share is temporarily unavailable.
AWAY_ERRORS = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
        errno.EREMOTEIO,
        errno.ENODEV,
        errno.ENXIO,
        errno.EHOSTDOWN,
    }
)
# Temporary errors, also of the network or of exhausted resources: retry.
PASSING_ERRORS = AWAY_ERRORS | {
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ECONNRESET,
    errno.ECONNREFUSED,
    errno.ECONNABORTED,
    errno.EBUSY,
    errno.EAGAIN,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
}
