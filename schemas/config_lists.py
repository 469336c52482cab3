"""Says which lists of a --config file a flag on the command line has replaced: they are not joined, as in click."""

from typing import Any

CONFIG_FILE = "config_file"  # in the context's meta: the name of the file whose values are the context's defaults


def replaced_lists(context: Any) -> list[str]:
    """A sentence for each option that may be repeated, is given on the command line and has a list in the file.

    `context` is click's, of a command whose command line was parsed.
    """
    file, in_file = context.meta.get(CONFIG_FILE), context.default_map or {}
    said = []
    for option in context.command.params:
        values = in_file.get(option.name)
        source = context.get_parameter_source(option.name)
        if file and values and getattr(option, "multiple", False) and source and source.name == "COMMANDLINE":
            flag = option.opts[0]
            count = "the value" if len(values) == 1 else f"the {len(values):,} values"
            said.append(
                f"{flag} on the command line replaces {count} of '{flag.lstrip('-')}' in {file}; to keep them, "
                f"repeat them: {' '.join(f'{flag} {value!r}' for value in values[:3])}{' ...' * (len(values) > 3)}"
            )
    return said
