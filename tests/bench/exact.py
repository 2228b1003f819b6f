"""Are two Parquet outputs the same multiset? Counted exactly, in slices, so that memory stays bounded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.bench.data import connect

ROWS_PER_SLICE = 8_000_000


@dataclass(frozen=True)
class Difference:
    """`missing`: rows of the reference that are not there; `extra`: rows that should not be there."""

    rows: int
    expected: int
    missing: int
    extra: int

    @property
    def exact(self) -> bool:
        return not (self.missing or self.extra) and self.rows == self.expected

    def __str__(self) -> str:
        if self.exact:
            return f"exact ({self.rows:,} rows)"
        return (
            f"WRONG: {self.rows:,} rows for {self.expected:,}, "
            f"{self.missing:,} missing, {self.extra:,} too many"
        )


def difference(output: Path, reference: Path) -> Difference:
    """EXCEPT ALL both ways in one pass: +1 for each expected row, −1 for each row found."""
    files = sorted(output.glob("*.parquet"))
    with connect() as connection:
        connection.execute(f"CREATE VIEW wanted AS FROM read_parquet('{reference}/*.parquet')")
        expected = connection.execute("SELECT count(*) FROM wanted").fetchall()[0][0]
        if not files:
            return Difference(0, expected, expected, 0)
        connection.execute(f"CREATE VIEW found AS FROM read_parquet('{output}/*.parquet')")
        rows = connection.execute("SELECT count(*) FROM found").fetchall()[0][0]
        columns = [row[0] for row in connection.execute("DESCRIBE wanted").fetchall()]
        listed = ", ".join(f'"{column}"' for column in columns)
        slices = max(1, -(-max(rows, expected) // ROWS_PER_SLICE))
        missing = extra = 0
        for part in range(slices):
            where = f"WHERE hash({listed}) % {slices} = {part}"
            more, less = connection.execute(
                "SELECT coalesce(sum(greatest(n, 0)), 0), coalesce(sum(greatest(-n, 0)), 0) FROM ("
                f"SELECT sum(n) AS n FROM (SELECT {listed}, 1 AS n FROM wanted {where} UNION ALL "
                f"SELECT {listed}, -1 FROM found {where}) GROUP BY {listed})"
            ).fetchall()[0]
            missing, extra = missing + int(more), extra + int(less)
    return Difference(rows, expected, missing, extra)
