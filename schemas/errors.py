"""The one exception of the contract."""


class ContractError(Exception):
    """What lies on disk breaks the contract; the text says what, where and what to do next."""
