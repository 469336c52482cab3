"""The exceptions of the contract, and the errors of a disk that waiting may cure."""

import errno


class ContractError(Exception):
    """What lies on disk breaks the contract; the text says what, where and what to do next."""


class MissingFolder(ContractError):
    """The path of a dataset names no folder: wrong usage, rather than data to be refused."""

    exit_code = 2


# Errors of a disk or network share that is away for a while.
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
# With those of a network or machine that lacks something now: what meets one is to be tried again, not given up.
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
