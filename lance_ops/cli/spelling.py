"""Spelling of errors on the command line: options as they are typed, in place of Python's arguments."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import click

# Python's names of options that are spelled otherwise here.
_PYTHON_NAMES = {
    "retain_versions": "--retain",
    "target_rows_per_fragment": "--target-rows",
    "target_bytes_per_fragment": "--target-bytes",
    "materialize_deletions_threshold": "--deletions-threshold",
    "max_compaction_seconds": "--budget-seconds",
    "max_compaction_bytes": "--budget-bytes",
    "full_text_query": "--match",
    "names": "--name",
    "index_type": "--kind",
    "parameters": "--param",
    "enable_stable_row_ids": "--stable-row-ids",
    "data_type": "--type",
    "storage_options": "--storage-option",
    "commit_every": "--commit-every",
    "columns": "--columns",
    "filter": "--filter",
    "predicate": "PREDICATE",
    "uri_or_dataset": "URI",
    "data": "SOURCE",
}
# Functions in hints whose command has another name; others are commands of the same name.
_COMMANDS = {
    "create_index": "lance-ops index",
    "measure_health": "lance-ops health",
    "move_tag": "--move",
    "optimize_indices": "lance-ops index URI",
}
# Placeholders of arguments.
_PHRASES = {
    "tables={name: uri}": "--table NAME=URI",
    "root=folder": "--root FOLDER",
    "spark=session": "--spark MASTER",
}
# "format='csv' (--format csv)": both spellings of one value.
_BOTH = re.compile(
    r"\b[a-z]+(?:_[a-z]+)*(?:=(?:'[^']*'|\{[^{}]*\}|\[[^\[\]]*\])(?: or '[^']*')?)? "
    r"\((--[a-z][^()]*(?:\([^()]*\)[^()]*)?)\)"
)
_BOTH_CALLS = re.compile(r"\blance_ops\.\w+\([^;]*\) \((lance-ops [^;]*)\)(?=;|$)")
_PYTHON_ONLY = re.compile(r"; (?:or )?[^;]*\b(?:lance_ops|pyarrow)\.\w[^;]*")
_CALL = re.compile(r"\b([a-z]+(?:_[a-z]+)*)\(\)")
_ASSIGNED = re.compile(r"\b([a-z]\w*)=(\"[^\"]*\"|'[^']*'|[\w.-]+|\.\.\.)")
_QUOTES = "\"'"
_WORD = re.compile(r"(?<![\w./`'\"-])([a-z]+(?:_[a-z]+)+)(?![\w./`'\"=(-])")


@dataclass(frozen=True, slots=True)
class Spelling:
    """The options and arguments of a command.

    Attributes:
        options: Options and arguments as typed, by their names in Python.
        switched_off: Options that set a flag to False, by the same names.
        commands: Names of all commands.
    """

    options: Mapping[str, str]
    switched_off: Mapping[str, str] = field(default_factory=dict)
    commands: frozenset[str] = frozenset()

    @classmethod
    def of_running(cls) -> "Spelling":
        """Return the spelling of the running command; an empty one outside of commands."""
        ctx = click.get_current_context(silent=True)
        if ctx is None:
            return cls({})
        root = ctx.find_root().command
        return cls.of(ctx.command, frozenset(root.commands if isinstance(root, click.Group) else ()))

    @classmethod
    def of(cls, command: click.Command, commands: frozenset[str] = frozenset()) -> "Spelling":
        """Return the spelling of a command among others."""
        options: dict[str, str] = {}
        off: dict[str, str] = {}
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                typed = max(parameter.opts, key=len)
                names = {typed.lstrip("-").replace("-", "_"), str(parameter.name)}
                for name in names:
                    options[name] = typed
                    if parameter.secondary_opts:
                        off[name] = max(parameter.secondary_opts, key=len)
            else:
                options[str(parameter.name)] = str(parameter.metavar or parameter.name).upper()
        for name, typed in _PYTHON_NAMES.items():
            if typed in options.values():
                options.setdefault(name, typed)
        return cls(options, off, commands)

    def of_field(self, field: str) -> tuple[str, str]:
        """Return the label and the text of an error's field: an option, an argument, or a field of data."""
        typed = self.options.get(field.removeprefix("--").replace("-", "_"))
        if field.startswith("--") or (typed or "").startswith("-"):
            return "option", typed or field
        return ("argument", typed) if typed is not None else ("field", field)

    def of_text(self, text: str) -> str:
        """Return a message or hint with the options of the command in place of Python's arguments.

        Example:
            >>> Spelling({"fill_missing": "--fill-missing"}).of_text("pass fill_missing=True")
            'pass --fill-missing'
        """
        for phrase, typed in _PHRASES.items():
            if typed.split()[0] in self.options.values():
                text = text.replace(phrase, typed)
        text = _PYTHON_ONLY.sub("", _BOTH_CALLS.sub(r"\1", _BOTH.sub(r"\1", text)))
        text = _CALL.sub(self._call, text)
        return _WORD.sub(self._word, _ASSIGNED.sub(self._assigned, text))

    def _call(self, match: re.Match[str]) -> str:
        name = match[1]
        command = name.replace("_", "-")
        return _COMMANDS.get(name) or (f"lance-ops {command}" if command in self.commands else match[0])

    def _assigned(self, match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        typed = self.options.get(name)
        if typed is None or not typed.startswith("-"):
            return match[0]
        if value == "True":
            return typed
        if value == "False":
            return self.switched_off.get(name, match[0])
        bare = value.strip(_QUOTES)
        return typed if value == "..." else f"{typed} {value if ' ' in bare else bare}"

    def _word(self, match: re.Match[str]) -> str:
        typed = self.options.get(match[1])
        return typed if typed is not None and typed.startswith("-") else match[0]
