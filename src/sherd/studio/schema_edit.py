"""A schema's YAML changed by hand in the studio, its comments and its order kept."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, SchemaError
from sherd.tables.files import write_whole
from sherd.tables.schema import Attribute, Role, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sherd.studio.workspace import Project

CHOSEN = ("type", "role", "missing", "outside", "recode", "other", "grid")


def _yaml() -> Any:
    from ruamel.yaml import YAML

    parser = YAML()
    parser.preserve_quotes = True
    parser.width = 100
    parser.indent(mapping=2, sequence=4, offset=2)
    return parser


def _document(text: str) -> Any:
    from ruamel.yaml.error import YAMLError

    try:
        return _yaml().load(text)
    except YAMLError:
        raise FormatError("the schema is not valid YAML", do="look at it with an editor") from None


def _dumped(document: Any) -> str:
    out = io.StringIO()
    _yaml().dump(document, out)
    return out.getvalue()


def adopt(given: Path, target: Path, names: Sequence[str]) -> None:
    """Bring an existing schema into the studio, comments included; its taxonomies stay in place.

    ``names`` are the table's columns: a schema of another table is refused.
    """
    missing = [name for name in Schema.load(given).attributes if name not in names]
    if missing:
        raise SchemaError(
            "the schema describes attributes that the table does not have",
            must="some of " + ", ".join(names[:20]),
            got=", ".join(missing[:5]) + (", …" if len(missing) > 5 else ""),
            do="choose the schema of this table",
        )
    document = _document(given.read_text(encoding="utf-8-sig"))
    for declared in document["attributes"].values():
        path = None if declared is None else declared.get("taxonomy")
        if isinstance(path, str):
            declared["taxonomy"] = str((given.parent / path).absolute())
    write_checked(target, _dumped(document))


def write_checked(target: Path, text: str) -> None:
    """Put a schema into its place once it can be read as one."""
    beside = target.with_name(".checked.yaml")
    write_whole(beside, text.encode(), mode=0o600)
    try:
        Schema.load(beside)
    finally:
        beside.unlink()
    write_whole(target, text.encode(), mode=0o600)


def change(project: Project, name: str, settings: Mapping[str, Any]) -> None:
    """Set keys of one attribute; None takes a key away. ``missing_values`` are the schema's."""
    document = _document(project.schema_file.read_text(encoding="utf-8"))
    if name not in document["attributes"]:
        raise SchemaError(f"the schema has no attribute '{name}'")
    declared = document["attributes"][name]
    for key, value in settings.items():
        if key == "missing_values":
            known = list(document.get(key) or ())
            document[key] = [*known, *(text for text in value if text not in known)]
        elif value is None:
            declared.pop(key, None)
        else:
            declared[key] = _flow(value)
    if "type" in settings and "values" not in settings:
        _drop_what_does_not_fit(declared)
    write_checked(project.schema_file, _dumped(document))


def set_population(project: Project, population: str | None) -> None:
    """Say whom the table is about."""
    document = _document(project.schema_file.read_text(encoding="utf-8"))
    if population:
        document["population"] = population
    else:
        document.pop("population", None)
    write_checked(project.schema_file, _dumped(document))


def _drop_what_does_not_fit(declared: Any) -> None:
    """After a change of type, bounds of labels and labels of numbers mean nothing."""
    measured = declared["type"] in ("number", "integer", "date", "datetime")
    labelled = declared["type"] in ("category", "ordinal")
    for key, fits in (("domain", measured), ("grid", measured), ("values", labelled),
                      ("values_from_data", labelled), ("taxonomy", labelled),
                      ("order", labelled)):  # fmt: skip
        if not fits:
            declared.pop(key, None)


def _flow(value: Any) -> Any:
    from ruamel.yaml.comments import CommentedSeq

    if not isinstance(value, list):
        return value
    sequence = CommentedSeq(value)
    sequence.fa.set_flow_style()
    return sequence


def questions(attribute: Attribute, decided: Sequence[str]) -> list[str]:
    """What is still to be decided about an attribute, in words."""
    asked = []
    if attribute.name not in decided:
        asked.append("confirm what it is")
    if attribute.role is Role.IDENTIFIER:
        return asked
    if attribute.type.measured and attribute.domain is None:
        asked.append("name the lowest and highest value that can occur")
    if attribute.values_from_data:
        asked.append("say whether the list of values is public")
    elif attribute.type.labelled and attribute.labels is None:
        asked.append("list the values, or leave the attribute out")
    return asked


def settings_of(form: Mapping[str, Any], attribute: Attribute) -> dict[str, Any]:
    """One attribute's form as keys to set; what is not known without the data is not declared."""
    chosen: dict[str, Any] = {key: form.get(key, "").strip() or None for key in CHOSEN}
    chosen = {key: value for key, value in chosen.items() if key in form}
    if chosen.get("type") is None:
        chosen.pop("type", None)
    known = form.get("known") == "yes"
    low, high = form.get("low", "").strip(), form.get("high", "").strip()
    if "low" in form:
        if bool(low) != bool(high):
            raise SchemaError(
                f"the domain of '{attribute.name}' has only one end", must="a lowest and a highest"
            )
        if low and not known:
            raise SchemaError(
                f"the domain of '{attribute.name}' is not known without the data",
                must="bounds from what is known about the question, not from the rows",
                do="tick “I know this without the data”, or leave the bounds empty",
            )
        chosen["domain"] = [_scalar(low), _scalar(high)] if low else None
    if "values" in form:
        values = [line.strip() for line in form["values"].splitlines() if line.strip()]
        chosen["values"] = values or None
        chosen["values_from_data"] = None if known or not values else True
    return chosen


def _scalar(text: str) -> Any:
    """A bound as YAML writes it: a number where it is one, text (a date) otherwise."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
