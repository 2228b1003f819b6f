"""Names in a query: which stream and column a name means, resolved as Spark does.

Not here: which expressions are allowed (terms.py) and what joins on what (keys.py).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from engine.query.model import Field, StreamSpec
from engine.query.parse import SqlText, start_of

if TYPE_CHECKING:
    from engine.query.terms import Term

_ALIAS = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Ref:
    """A column of one input (by its position in FROM)."""

    input: int
    field: Field


@dataclass(frozen=True, slots=True)
class Branch:
    """One stream behind an entry of FROM: what each of the entry's columns is in it, as Spark SQL.

    `columns` names the stream's column where an expression is nothing more (a widening cast aside).
    Both are empty for a stream that is read as it is.
    """

    stream: StreamSpec
    exprs: tuple[str, ...] = ()
    columns: tuple[str | None, ...] = ()
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of FROM: a stream, or several under one alias, and where in the text it stands."""

    alias: str
    fields: tuple[Field, ...]
    branches: tuple[Branch, ...]
    at: int = 0

    def field(self, name: str) -> Field | None:
        wanted = name.lower()
        return next((f for f in self.fields if f.name.lower() == wanted), None)

    def column(self, branch: Branch, field: Field) -> str | None:
        """The branch's own column that a column of this entry is, if it is one."""
        return branch.columns[self.fields.index(field)] if branch.exprs else field.name


@dataclass(frozen=True, slots=True)
class Merged:
    """A column merged by USING: the inputs that share it, leftmost first."""

    name: str
    refs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """What is in FROM, and the columns that USING has merged. `over` reads window functions, where there
    may be any."""

    text: SqlText
    sources: tuple[Source, ...]
    merged: tuple[Merged, ...] = ()
    over: Callable[[exp.Window, Scope], Term] | None = None

    def find_source(self, name: str) -> int | None:
        wanted = name.lower()
        return next((i for i, s in enumerate(self.sources) if s.alias.lower() == wanted), None)

    def resolve(self, column: exp.Column) -> Ref:
        """The column that a name means; unknown and ambiguous names are errors."""
        if column.args.get("db") or column.args.get("catalog"):
            raise self.text.error(
                f"`{self.text.source(column)}` has too many parts",
                column,
                "write column or stream.column; nested fields are not supported",
            )
        if column.table:
            return self._qualified(column)
        return self._unqualified(column)

    def _qualified(self, column: exp.Column) -> Ref:
        position = self.find_source(column.table)
        if position is None:
            raise self._no_source(column)
        field = self.sources[position].field(column.name)
        if field is None:
            raise self._no_column(column, (position,))
        return Ref(position, field)

    def _unqualified(self, column: exp.Column) -> Ref:
        wanted = column.name.lower()
        merged = next((m for m in self.merged if m.name.lower() == wanted), None)
        hidden = {ref.input for ref in merged.refs} if merged else set()
        found = [merged.refs[0]] if merged else []
        for position, source in enumerate(self.sources):
            field = source.field(wanted)
            if field and position not in hidden:
                found.append(Ref(position, field))
        if not found:
            raise self._no_column(column, tuple(range(len(self.sources))))
        if len(found) > 1:
            choices = [f"{self.sources[ref.input].alias}.{ref.field.name}" for ref in found]
            hint = f"write for example {choices[0]}"
            if isinstance(column.parent, exp.EQ | exp.Join):
                hint = f"write ON {' = '.join(choices[:2])}, or USING ({column.name})"
            what = f"column `{column.name}` is ambiguous: {' or '.join(choices)}"
            raise self.text.error(what, column, hint)
        return found[0]

    def _no_source(self, column: exp.Column) -> Exception:
        names = [source.alias for source in self.sources]
        wanted = column.table.lower()
        called = [s.alias for s in self.sources if s.branches[0].stream.name.lower() == wanted]
        if called:
            hint = f"it is called {' and '.join(called)} there: write {called[0]}.{column.name}"
        else:
            hint = closest(column.table, names) or f"in FROM are: {', '.join(names)}"
        return self.text.error(f"there is no stream `{column.table}` in FROM", column, hint)

    def _no_column(self, column: exp.Column, positions: tuple[int, ...]) -> Exception:
        owners = [s.alias for s in self.sources if s.field(column.name)]
        looked = [self.sources[p] for p in positions]
        names = [f.name for source in looked for f in source.fields]
        place = f"stream `{looked[0].alias}`" if len(looked) == 1 else "any stream"
        hints = [closest(column.name, names) or f"columns are: {', '.join(dict.fromkeys(names))}"]
        if owners:
            hints.append(f"`{column.name}` is in {', '.join(owners)}")
        meant = _other_meaning(column)
        if meant and not column.table:
            hints.insert(0, meant)
        return self.text.error(
            f"column `{column.name}` is not in {place}", column, "; ".join(hints)
        )


def _other_meaning(column: exp.Column) -> str:
    """What a name that is no column may be: one that SELECT gives, or a text without its quotes."""
    select = column.find_ancestor(exp.Select)
    for given in select.expressions if select and column.find_ancestor(exp.Where) else ():
        if isinstance(given, exp.Alias) and given.alias.lower() == column.name.lower():
            inside = given.this.sql(dialect="spark")
            return f"SELECT names it after WHERE has run: write {inside}"
    compared = isinstance(column.parent, exp.EQ | exp.NEQ | exp.In | exp.Like)
    return f"a text needs quotes: '{column.name}'" if compared else ""


def closest(name: str, names: list[str]) -> str:
    """ "did you mean …?", or nothing."""
    lowered = {n.lower(): n for n in names}
    found = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f"did you mean `{lowered[found[0]]}`?" if found else ""


def source_of(text: SqlText, table: exp.Table, streams: dict[str, StreamSpec]) -> Source:
    """The stream that an entry of FROM names."""
    lowered = {name.lower(): stream for name, stream in streams.items()}
    stream = None if table.args.get("db") else lowered.get(table.name.lower())
    if stream is None:
        hint = closest(table.name, list(streams)) or f"streams are: {', '.join(streams)}"
        shown = ".".join(text.source(part) for part in table.parts)
        raise text.error(f"there is no stream `{shown}`", table, hint)
    alias = table.alias or stream.name
    check_alias(text, alias, table)
    return Source(alias, stream.fields, (Branch(stream),), start_of(table))


def check_alias(text: SqlText, alias: str, node: exp.Expr) -> None:
    """Aliases are plain names, as they are part of the names of columns and operators."""
    if not _ALIAS.match(alias):
        raise text.error(
            f"alias `{alias}` is not a plain name",
            node,
            "use letters, digits and _, starting with a letter",
        )


def distinct_aliases(text: SqlText, tables: list[exp.Expr], sources: list[Source]) -> None:
    """Every alias is used once."""
    seen: set[str] = set()
    for table, source in zip(tables, sources, strict=True):
        if source.alias.lower() in seen:
            raise text.error(
                f"`{source.alias}` is in FROM twice",
                table,
                "give each its own alias: FROM a AS x JOIN a AS y ON …",
            )
        seen.add(source.alias.lower())
