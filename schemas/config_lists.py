"""Report lists of a --config file that a command-line flag has replaced: as in click, they are not joined."""

from typing import Any

CONFIG_FILE = "config_file"  # key in the context's meta: the name of the file that default_map was read from


def replaced_lists(context: Any) -> list[str]:
    """Return a sentence for each repeatable option that is given on the command line and has a list in the file.

    `context` is the click.Context of a parsed command line.
    """
    file, in_file = context.meta.get(CONFIG_FILE), context.default_map or {}
    sentences = []
    for option in context.command.params:
        values = in_file.get(option.name)
        source = context.get_parameter_source(option.name)
        if file and values and getattr(option, "multiple", False) and source and source.name == "COMMANDLINE":
            flag = option.opts[0]
            count = "the value" if len(values) == 1 else f"the {len(values):,} values"
            sentences.append(
                f"{flag} on the command line replaces {count} of '{flag.lstrip('-')}' in {file}; to keep them, "
                f"repeat them: {' '.join(f'{flag} {value!r}' for value in values[:3])}{' ...' * (len(values) > 3)}"
            )
    return sentences
