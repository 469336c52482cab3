"""Exceptions of the contract, and the disk errors that may be temporary."""

import errno


class ContractError(Exception):
    """A file on disk breaks the contract. The message says what, where and what to do next."""


class MissingFolder(ContractError):
    """The path of a dataset is not a folder, which is wrong usage."""

    exit_code = 2


# Errors of a disk or network share that is temporarily unavailable.
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
# Temporary errors: those above, of the network, and of exhausted resources. A retry may succeed.
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
