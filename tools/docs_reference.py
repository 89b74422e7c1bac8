"""Tables of the reference pages, made from the code: what is listed there cannot drift from what there is."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pyarrow as pa
from griffe import Docstring, DocstringSectionKind

from lance_ops.errors import MissingExtraError, UnsupportedTypeError
from lance_ops.file.schema.model import Schema

NOTHING = object()


def find(name: str) -> Any:
    """What a dotted name stands for: a module, or something in one.

    Raises:
        LookupError: Nothing of that name exists.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] == parts[0]:
                continue
            # A package of an extra that is not installed: what is in the module cannot be seen.
            return None
        except MissingExtraError:
            return None
        for part in parts[length:]:
            value = getattr(value, part, NOTHING)
            if value is NOTHING:
                raise LookupError(f"{name} does not exist")
        return value
    raise LookupError(f"{name} does not exist")


def public_names(module: ModuleType) -> list[str]:
    """Names that a page lists: `__all__` but for modules, which have pages; or the classes defined there."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        things = {name: getattr(module, name) for name in listed if not name.startswith("__")}
        return [name for name, value in things.items() if not inspect.ismodule(value)]
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _described(text: str | None, kind: DocstringSectionKind) -> dict[str, str]:
    """What a docstring says about each attribute or argument."""
    sections = Docstring(inspect.cleandoc(text or ""), lineno=1).parse("google", warnings=False)
    found: dict[str, str] = {}
    for section in sections:
        if section.kind is kind:
            found.update({item.name: " ".join(item.description.split()) for item in section.value})
    return found


def _type_text(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    # A bar would end the cell of a table on many pages that show Markdown.
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text.strip("'\"")).replace(" | ", " or ")


def _default_text(value: Any) -> str:
    if value in (NOTHING, inspect.Parameter.empty, dataclasses.MISSING):
        return "required"
    if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000:
        return f"{value:,}"
    return f"`{value!s}`" if not isinstance(value, str) else f'`"{value}"`'


def fields(name: str) -> str:
    """The fields of a dataclass, or of the config of a Dagster job, with types, defaults and meaning."""
    kind = find(name)
    heads = ("option", "type", "default", "meaning")
    if hasattr(kind, "model_fields"):
        return table(heads, _model_rows(kind))
    meanings = _described(kind.__doc__, DocstringSectionKind.attributes)
    return table(heads, _field_rows(kind, meanings))


def _field_rows(kind: Any, meanings: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for item in dataclasses.fields(kind):
        default = item.default
        if item.default_factory is not dataclasses.MISSING:
            default = item.default_factory()
            default = type(default)() if isinstance(default, (dict, list)) else default
        if item.name in meanings:
            shown = "its defaults" if dataclasses.is_dataclass(default) else _default_text(default)
            yield f"`{item.name}`", f"`{_type_text(item.type)}`", shown, meanings[item.name]


def _model_rows(kind: Any) -> Iterator[tuple[str, ...]]:
    for name, item in kind.model_fields.items():
        if item.description:
            default = item.get_default(call_default_factory=True)
            shown = "required" if item.is_required() else _default_text(default)
            yield f"`{name}`", f"`{_type_text(item.annotation)}`", shown, item.description


def parameters(name: str) -> str:
    """The arguments of a function or class, with types, defaults and meaning."""
    function = find(name)
    signature = inspect.signature(function)
    meanings = _described(function.__doc__, DocstringSectionKind.parameters)
    rows = (
        (
            f"`{item.name}`",
            f"`{_type_text(item.annotation)}`",
            _default_text(item.default),
            meanings[item.name],
        )
        for item in signature.parameters.values()
        if item.name in meanings
    )
    return table(("argument", "type", "default", "meaning"), rows)


def commands() -> str:
    """Every command of the command line with its arguments and options."""
    from lance_ops.cli import main

    context = click.Context(main, info_name="lance-ops")
    parts = [_command(main.commands[name], context) for name in main.list_commands(context)]
    return "\n\n".join(parts)


def settings(name: str) -> str:
    """Settings of a class of a fleet: the fields of a mapping from names to `Setting`."""
    from lance_ops.fleet.policy.settings import setting_text

    rows = ((f"`{key}`", f"`{setting_text(item.default)}`", item.means) for key, item in find(name).items())
    return table(("setting", "default", "meaning"), rows)


def _command(command: click.Command, parent: click.Context, above: str = "") -> str:
    context = click.Context(command, info_name=command.name, parent=parent)
    if isinstance(command, click.Group):
        below = [_command(item, context, f"{command.name} ") for item in command.commands.values()]
        return "\n\n".join(below)
    name = f"{above}{command.name}"
    usage = " ".join(command.collect_usage_pieces(context))
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    options = (
        (f"`{', '.join(option.opts)}`", _option_type(option, context), option.help or "")
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
    )
    return "\n\n".join(
        [
            f"### lance-ops {name}",
            f"`lance-ops {name} {usage}`",
            text,
            table(("option", "value", "meaning"), options),
        ]
    )


def _option_type(option: click.Option, context: click.Context) -> str:
    if option.is_flag:
        return ""
    default = option.get_default(context)
    shown = f", default `{default}`" if isinstance(default, (str, int, float)) else ""
    return f"`{option.make_metavar(context).replace('|', ', ')}`{shown}"


def first_lines(name: str) -> str:
    """A mapping of names to what does them, with the first line of each one's docstring or description."""
    rows = (
        (f"`{key}`", getattr(value, "description", None) or inspect.cleandoc(value.__doc__).splitlines()[0])
        for key, value in find(name).items()
    )
    return table(("name", "condition"), rows)


def words(name: str) -> str:
    """A collection of names, in order of the alphabet."""
    return ", ".join(f"`{word}`" for word in sorted(find(name)))


def pairs(name: str) -> str:
    """A mapping of names to names."""
    return ", ".join(f"`{key}` ({value})" for key, value in sorted(find(name).items()))


def text(name: str) -> str:
    """A text as it stands."""
    return f"```text\n{find(name).strip()}\n```"


def storage_versions(name: str) -> str:
    """Versions of data files and what is done with them."""
    rows = ((item.name, "yes", _yes(item.is_written)) for item in find(name))
    return table(("storage version", "read", "written"), rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


_TYPES: Mapping[str, pa.DataType] = {
    "integers of 8 to 64 bits": pa.int8(),
    "floating-point numbers of 16, 32 and 64 bits": pa.float16(),
    "`bool`": pa.bool_(),
    "`decimal128`, `decimal256`": pa.decimal128(20, 2),
    "`string`, `large_string`, `string_view`": pa.string(),
    "`binary`, `large_binary`, `binary_view`": pa.binary(),
    "`fixed_size_binary`": pa.binary(4),
    "`date`, `time`, `timestamp`, `duration`": pa.timestamp("us", "UTC"),
    "`interval`": pa.month_day_nano_interval(),
    "`null`": pa.null(),
    "`dictionary` of strings or numbers": pa.dictionary(pa.int8(), pa.string()),
    "`dictionary` of dates, times or timestamps": pa.dictionary(pa.int8(), pa.timestamp("us", "UTC")),
    "`struct`": pa.struct({"a": pa.int8()}),
    "`list`, `large_list`": pa.list_(pa.int8()),
    "`fixed_size_list` of numbers": pa.list_(pa.float32(), 4),
    "`fixed_size_list` of structs": pa.list_(pa.struct({"a": pa.int8()}), 2),
    "`fixed_size_list` of strings or lists": pa.list_(pa.string(), 2),
    "`map`": pa.map_(pa.string(), pa.int8()),
    "`run_end_encoded`, `union`, `list_view`": pa.run_end_encoded(pa.int32(), pa.int8()),
}
"""One type for each row of the table of types: who adds an encoding changes the table by that."""


def types(name: str) -> str:
    """Arrow types, and the versions of data files that can hold them; asks the checks of each version."""
    versions = [item for item in find(name) if item.is_written]
    rows = (
        (text, *(_yes(_holds(version.layout, data_type)) for version in versions))
        for text, data_type in _TYPES.items()
    )
    return table(("Arrow type", *(version.name for version in versions)), rows)


def _holds(layout: Any, data_type: pa.DataType) -> bool:
    try:
        return not layout.find_problems(Schema.from_arrow(pa.schema({"column": data_type})))
    except UnsupportedTypeError:
        return False


def flags(name: str) -> str:
    """Feature flags that are implemented; every other one is refused by number and, where known, by name."""
    rows = ((str(int(flag)), flag.name.lower().replace("_", " ")) for flag in find(name))
    return table(("bit", "feature"), rows)


def index_kinds(name: str) -> str:
    """Kinds of index that are built and used."""
    return ", ".join(f"`{kind.name}`" for kind in find(name)())


def compaction_keys(name: str) -> str:
    """Entries of a table's config that change what a compaction does."""
    module = find(name)
    meanings = _described(module.CompactionOptions.__doc__, DocstringSectionKind.attributes)
    rows = ((f"`{module.CONFIG_PREFIX}{key}`", meanings[key]) for key in module._PARSERS)  # noqa: SLF001
    return table(("key", "meaning"), rows)


def every(name: str) -> str:
    """Documentation of every public name of a module, base classes before what derives from them."""
    module = find(name)
    classes = sorted(
        (getattr(module, item) for item in public_names(module)), key=lambda one: len(one.__mro__)
    )
    return "\n\n".join(f"::: {name}.{one.__name__}" for one in classes)


def errors(name: str) -> str:
    """Codes of errors with the class that has each, and its meaning."""
    module = find(name)
    kinds = [getattr(module, item) for item in public_names(module)]
    rows = (
        (f"`{kind.code}`", f"`{kind.__name__}`", inspect.cleandoc(kind.__doc__).splitlines()[0])
        for kind in kinds
        if "code" in vars(kind)
    )
    return table(("code", "class", "meaning"), rows)


DIRECTIVES: Mapping[str, Callable[..., str]] = {
    "fields": fields,
    "parameters": parameters,
    "commands": commands,
    "first-lines": first_lines,
    "words": words,
    "pairs": pairs,
    "text": text,
    "storage-versions": storage_versions,
    "types": types,
    "flags": flags,
    "index-kinds": index_kinds,
    "settings": settings,
    "compaction-keys": compaction_keys,
    "errors": errors,
}
"""What a page may contain: `{{ fields lance_ops.X }}` on a line of its own, which `make docs` fills in."""

_DIRECTIVE = re.compile(r"^\{\{ ([\w-]+)((?: [\w.]+)*) \}\}$", re.MULTILINE)
_FILLED = re.compile(r"^<!-- from the code: ([^\n]+?) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_SITE_ONLY = {"every": every}
DOCS = Path(__file__).resolve().parents[1] / "docs"


def fill(markdown: str) -> str:
    """Return a page with its tables made from the code, between comments that name the directive.

    Raises:
        LookupError: A directive, or the object that it names, does not exist.
    """

    def table_of(match: re.Match[str]) -> str:
        name, *rest = match[1].split()
        if name not in DIRECTIVES:
            raise LookupError(f"no directive {name!r}; there are {', '.join(DIRECTIVES)}")
        return f"<!-- from the code: {match[1]} -->\n\n{DIRECTIVES[name](*rest)}\n\n<!-- end -->"

    def begin(match: re.Match[str]) -> str:
        if match[1] in _SITE_ONLY:
            return match[0]
        return f"<!-- from the code: {match[1]}{match[2]} -->\n<!-- end -->"

    return _FILLED.sub(table_of, _DIRECTIVE.sub(begin, markdown))


def expand(markdown: str) -> str:
    """Return a page with the directives that only the site carries out, those of the API pages."""

    def carry_out(match: re.Match[str]) -> str:
        directive = _SITE_ONLY.get(match[1])
        return match[0] if directive is None else directive(*match[2].split())

    return _DIRECTIVE.sub(carry_out, markdown)


def main() -> None:
    """Fill in the tables of all pages; `make docs` does it before it builds the site."""
    for page in sorted(DOCS.rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = fill(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"filled in {page.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
