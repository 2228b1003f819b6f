"""Queries as newcomers write them: what means the same as a supported query is taken as it, and every refusal
names what is meant, where it stands, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.query.ddl import parse_schema
from engine.query.model import JoinQuery, QuerySpec, SinkSpec, StreamSpec
from engine.query.sql import analyse

SCHEMAS = {
    "orders": "id bigint, customer int, status string, price decimal(10,2), at timestamp, "
    "tags array<string>",
    "payments": "id bigint, customer int, amount decimal(10,2), paid timestamp, `order` bigint",
    "customers": "customer int, name string, country string",
}
TIMES = {"orders": "at", "payments": "paid"}


def query(sql: str) -> JoinQuery:
    streams = {
        name: StreamSpec(name, "parquet", "", parse_schema(text), TIMES.get(name))
        for name, text in SCHEMAS.items()
    }
    return analyse(QuerySpec("q", sql, streams, SinkSpec("noop", ""), Path("c"), Path("q.toml")))


JOIN = " FROM orders o JOIN payments p ON o.id = p.id"
PLAIN = "SELECT o.id, p.amount" + JOIN

# Each means what the other says.
SAME = [
    (PLAIN + ";", PLAIN),
    (PLAIN + " ; ;\n", PLAIN),
    (PLAIN + "; -- done", PLAIN),
    (";" + PLAIN, PLAIN),
    ("(" + PLAIN + ")", PLAIN),
    ("-- mine\nSELECT o.id, /* both */ p.amount" + JOIN + "\n-- end", PLAIN),
    ("SELECT o.id, p.amount FROM orders o, payments p WHERE o.id = p.id", PLAIN),
    ("SELECT o.id, p.amount FROM orders o CROSS JOIN payments p WHERE p.id = o.id", PLAIN),
    ("SELECT o.id, p.amount FROM orders o JOIN payments p WHERE o.id = p.id", PLAIN),
    ("SELECT o.id, p.amount FROM Orders o INNER JOIN PAYMENTS AS p ON o.ID == p.id", PLAIN),
    ("SELECT id, amount FROM orders o JOIN payments p USING (id)", PLAIN),
    ("SELECT `o`.`id`, p.`amount`" + JOIN, PLAIN),
    (
        "SELECT p.amount FROM orders o NATURAL JOIN payments p",
        "SELECT p.amount FROM orders o JOIN payments p USING (id, customer)",
    ),
    (
        "SELECT * FROM customers c NATURAL JOIN payments p",
        "SELECT * FROM customers c JOIN payments p USING (customer)",
    ),
    (
        "WITH big AS (SELECT * FROM orders WHERE price > 10)\n"
        "SELECT o.id, p.amount FROM big o JOIN payments p ON o.id = p.id",
        "SELECT o.id, p.amount FROM (SELECT * FROM orders WHERE price > 10) o"
        " JOIN payments p ON o.id = p.id",
    ),
    (
        "WITH orders AS (SELECT id, price * 2 AS twice FROM orders), p AS (SELECT * FROM payments)"
        " SELECT twice, x.amount FROM orders, p x, p y WHERE orders.id = x.id AND x.id = y.id",
        "SELECT twice, x.amount FROM (SELECT id, price * 2 AS twice FROM orders) orders,"
        " (SELECT * FROM payments) x, (SELECT * FROM payments) y"
        " WHERE orders.id = x.id AND x.id = y.id",
    ),
    (
        "WITH both AS (SELECT id FROM orders UNION ALL SELECT id FROM payments)"
        " SELECT b.id, name FROM both b [RANGE UNBOUNDED] JOIN customers c ON b.id = c.customer",
        "SELECT b.id, name FROM (SELECT id FROM orders UNION ALL SELECT id FROM payments) b"
        " JOIN customers c ON b.id = c.customer",
    ),
    (PLAIN + " WHERE o.status = 'it''s'", PLAIN + r" WHERE o.status = 'it\'s'"),
    (PLAIN + " WHERE o.status = 'new' 'ly'", PLAIN + " WHERE o.status = 'newly'"),
    (PLAIN + ' WHERE o.status = "a""b"', PLAIN + """ WHERE o.status = 'a"b'"""),
    (PLAIN + " WHERE o.status = ''''", PLAIN + ''' WHERE o.status = "'"'''),
]


@pytest.mark.parametrize(("sql", "plain"), SAME)
def test_what_means_the_same_is_taken(sql: str, plain: str) -> None:
    assert query(sql) == query(plain)


# SQL, the place of what is refused (line:column), its name, and part of what to do.
REFUSED = [
    # -- rows of other streams as a condition
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM payments p WHERE p.id = o.id)",
        "1:33",
        "EXISTS with a subquery is not supported",
        "join with it",
    ),
    (
        "SELECT o.id FROM orders o\nWHERE NOT EXISTS (SELECT 1 FROM payments p)",
        "2:11",
        "NOT EXISTS with a subquery",
        "no partner yet",
    ),
    (
        "SELECT id FROM orders WHERE id IN (SELECT id FROM payments)",
        "1:29",
        "IN with a subquery",
        "join with it",
    ),
    (
        "SELECT id FROM orders WHERE id NOT IN (SELECT id FROM payments)",
        "1:29",
        "NOT IN with a subquery",
        "no partner yet",
    ),
    (
        PLAIN + " WHERE p.amount > (SELECT avg(amount) FROM payments)",
        "1:86",
        "a subquery is not supported",
        "join",
    ),
    (
        "SELECT id, (SELECT max(amount) FROM payments) AS m FROM orders",
        "1:13",
        "a subquery is not supported",
        "join",
    ),
    (PLAIN + " WHERE (o.id, 1) IN ((1, 2))", "1:75", "a tuple (x, y)", "column by column"),
    # -- clauses that need an end
    ("SELECT DISTINCT o.id" + JOIN, "1:8", "DISTINCT is not supported", "when you read them"),
    (PLAIN + " LIMIT 10", "1:68", "LIMIT is not supported", "query tail"),
    (PLAIN + " FETCH FIRST 10 ROWS ONLY", "1:68", "FETCH is not supported", "query tail"),
    ("SELECT TOP 10 o.id" + JOIN, "1:8", "TOP is not supported", "query tail"),
    (PLAIN + "\nORDER BY o.id", "2:1", "ORDER BY is not supported", "sort them"),
    (
        "SELECT o.customer, count(*) AS n" + JOIN + "\nGROUP BY o.customer",
        "2:1",
        "GROUP BY is not supported",
        "window function",
    ),
    (PLAIN + " GROUP  BY ALL", "1:68", "GROUP BY is not supported", "window function"),
    (PLAIN + " HAVING p.amount > 3", "1:68", "HAVING is not supported", "window function"),
    ("SELECT count(*)" + JOIN, "1:8", "aggregate function count", "over a window it is"),
    ("SELECT sum(price) AS s FROM orders", "1:8", "aggregate function sum", "over a window it is"),
    (
        PLAIN + " QUALIFY rank() OVER (PARTITION BY o.id ORDER BY o.at) = 1",
        "1:68",
        "QUALIFY",
        "read",
    ),
    # -- joins of other kinds
    (
        "SELECT o.id FROM orders o LEFT JOIN payments p ON o.id = p.id",
        "1:27",
        "LEFT JOIN is not supported",
        "inner joins are",
    ),
    (
        "SELECT o.id FROM orders o\n  RIGHT OUTER JOIN payments p ON o.id = p.id",
        "2:3",
        "RIGHT OUTER JOIN",
        "inner joins are",
    ),
    (
        "SELECT o.id FROM orders o FULL JOIN payments p USING (id)",
        "1:27",
        "FULL JOIN",
        "inner joins",
    ),
    (
        "SELECT o.id FROM orders o LEFT SEMI JOIN payments p USING (id)",
        "1:27",
        "SEMI",
        "each partner",
    ),
    ("SELECT o.id FROM orders o ANTI JOIN payments p USING (id)", "1:27", "ANTI", "no partner yet"),
    ("SELECT o.id FROM orders o ASOF JOIN payments p USING (id)", "1:27", "ASOF", "BETWEEN"),
    (
        "SELECT o.id FROM orders o CROSS JOIN payments p",
        "1:38",
        "no equality joins p to o",
        "ON a.k",
    ),
    ("SELECT o.id FROM orders o, payments p", "1:28", "no equality joins p to o", "ON a.k"),
    (
        "SELECT o.id FROM orders o JOIN payments p ON o.price < p.amount",
        "1:46",
        "`o.price < p.amount` is a comparison",
        "needs an equality",
    ),
    (
        "SELECT o.id FROM orders o JOIN payments p ON o.id = p.id OR o.customer = p.customer",
        "1:46",
        "`o.id = p.id OR o.customer = p.customer` is an OR",
        "each side of the OR",
    ),
    (
        "SELECT o.id FROM orders o JOIN payments p ON o.id = o.customer",
        "1:32",
        "no equality joins p to o",
        "ON a.k",
    ),
    (
        "SELECT o.id FROM orders o JOIN payments p ON p.id = p.customer",
        "1:46",
        "`p.id = p.customer` is about one side only",
        "ON a.k",
    ),
    (
        "SELECT o.id FROM orders o JOIN payments p ON o.id <=> p.id",
        "1:46",
        "takes nulls as equal",
        "write =",
    ),
    (
        "SELECT o.id FROM orders o JOIN payments p ON o.status = p.id",
        "1:46",
        "(string)",
        "CAST one",
    ),
    (
        "SELECT status FROM orders NATURAL JOIN (SELECT amount FROM payments) p",
        "1:48",
        "shares no",
        "ON",
    ),
    (
        "SELECT o.id FROM (orders o JOIN payments p USING (id)) JOIN customers c USING (customer)",
        "1:19",
        "a join in parentheses",
        "in a row",
    ),
    # -- subqueries, WITH, UNION
    (
        "WITH x AS (SELECT o.id"
        + JOIN
        + ") SELECT name FROM x JOIN customers c ON x.id = c.customer",
        "1:43",
        "a join within a subquery",
        "outer FROM",
    ),
    (
        "WITH x AS (SELECT * FROM orders), y AS (SELECT * FROM x) SELECT y.id FROM x, y",
        "1:55",
        "`y` reads `x`, which is of WITH too",
        "over streams",
    ),
    ("WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x", "1:6", "WITH RECURSIVE", "over streams"),
    ("WITH x AS (SELECT * FROM orders) " + PLAIN, "1:6", "`x` of WITH is not used", "take it out"),
    ("WITH x(k) AS (SELECT id FROM orders) SELECT k FROM x", "1:6", "names for columns", "AS name"),
    (
        "SELECT x.id FROM (WITH y AS (SELECT 1) SELECT id FROM orders) x, payments",
        "1:19",
        "WITH within a subquery",
        "in front of SELECT",
    ),
    (
        "SELECT id FROM (SELECT * FROM orders)",
        "1:24",
        "a subquery in FROM needs a name",
        "(SELECT …) x",
    ),
    ("SELECT id FROM orders UNION SELECT id FROM payments", "1:23", "UNION of whole", "in FROM"),
    # -- names
    ("SELECT id" + JOIN, "1:8", "column `id` is ambiguous: o.id or p.id", "write for example o.id"),
    ("SELECT o.at FROM orders o JOIN payments p ON id = id", "1:46", "ambiguous", "ON o.id = p.id"),
    ("SELECT o.at FROM orders o JOIN payments p ON id", "1:46", "ambiguous", "USING (id)"),
    ("SELECT o.idd" + JOIN, "1:8", "column `idd` is not in stream `o`", "did you mean `id`"),
    ("SELECT o.amount" + JOIN, "1:8", "`amount` is not in stream `o`", "`amount` is in p"),
    ("SELECT orders.id" + JOIN, "1:8", "no stream `orders` in FROM", "write o.id"),
    (PLAIN + " WHERE o.status = paidd", "1:85", "column `paidd`", "a text needs quotes: 'paidd'"),
    (
        "SELECT p.amount AS much" + JOIN + " WHERE much > 3",
        "1:76",
        "column `much`",
        "SELECT names it after WHERE has run: write p.amount",
    ),
    ("SELECT o.id FROM order o, payments p", "1:18", "there is no stream `order`", "`orders`"),
    ("SELECT o.id FROM db.orders o, payments p", "1:18", "no stream `db.orders`", "`orders`"),
    ("SELECT o.id FROM read_parquet('x') o", "1:18", "function read_parquet", "[streams.NAME]"),
    (
        "SELECT orders.id FROM orders JOIN orders ON 1 = 1",
        "1:35",
        "`orders` is in FROM twice",
        "alias",
    ),
    ("SELECT *" + JOIN, "1:8", "`id`, both from *", "a.id, b.id AS id_2"),
    ("SELECT o.id, p.id" + JOIN, "1:14", "two output columns are named `id`", "AS id_2"),
    ("SELECT o.price * 2" + JOIN, "1:8", "`o.price * 2` needs a name", "AS name"),
    ('SELECT "price"' + JOIN, "1:8", "needs a name", "`price` in backticks"),
    ('SELECT "o"."id"' + JOIN, "1:8", '`"o"."id"` is not supported', "backticks"),
    ("SELECT [o].[id]" + JOIN, "1:12", "`[` is not known here", "`backticks`"),
    ("SELECT “o”.id" + JOIN, "1:8", "`“` is a typographic quote", "`name`"),
    (PLAIN + " WHERE o.status = ‘new’", "1:85", "`‘` is a typographic quote", "'text'"),
    ("SELECT p.amount AS select" + JOIN, "1:20", "`select` is a word of SQL", "`select`"),
    ("SELECT o.id AS my id" + JOIN, "1:16", "`my id` is two words", "AS `my id`"),
    # -- functions and expressions
    ("SELECT my_udf(o.id) AS x" + JOIN, "1:8", "function my_udf", "of your own are not"),
    ("SELECT now() AS x" + JOIN, "1:8", "function now", "another at a restart"),
    ("SELECT explode(o.tags) AS x" + JOIN, "1:8", "function explode", "take arrays apart"),
    ("SELECT o.tags[0] AS x" + JOIN, "1:8", "an element of an array", "apart"),
    (
        "SELECT upper(o.status) AS x" + JOIN,
        "1:8",
        "cannot evaluate `upper(o.status)`",
        "FROM (SELECT *, CAST(… AS type) AS x FROM orders) o",
    ),
    ("SELECT o.at AT TIME ZONE 'UTC' AS x" + JOIN, "1:8", "AT TIME ZONE 'UTC'`", "instants"),
    (PLAIN + " WHERE o.id = ?", "1:74", "a parameter", "the value itself"),
    (PLAIN + " WHERE o.id = {id}", "1:82", "a parameter", "the value itself"),
    # -- what does not parse
    ("SELECT o.id o.status" + JOIN, "1:13", "a comma is missing before `o.status`", "x, y"),
    (
        "SELECT o.id,\n p.amount\n o.status" + JOIN,
        "3:2",
        "a comma is missing before `o.status`",
        "",
    ),
    ("SELCT o.id" + JOIN, "1:1", "begins with `SELCT`", "did you mean SELECT?"),
    ("SELECT o.id FORM orders o", "1:13", "`FORM` is not known", "did you mean FROM?"),
    ("SELECT o.id FROM orders o JION payments p USING (id)", "1:27", "`JION`", "mean JOIN?"),
    (PLAIN + " WEHRE o.id = 3", "1:68", "`WEHRE`", "mean WHERE?"),
    ("SELECT o.id FROM orders o INNER payments p USING (id)", "1:27", "JOIN is missing", "JOIN b"),
    (
        "SELECT o.id FROM orders o JOIN payments p o.id = p.id",
        "1:43",
        "ON is missing before",
        "JOIN b",
    ),
    (
        "SELECT o.id FROM orders o JOIN payments p ON (o.id = p.id",
        "1:46",
        "`(` is not closed",
        "`)`",
    ),
    (PLAIN + ")", "1:67", "this `)` closes nothing", "`(`"),
    (PLAIN + " WHERE", "1:68", "ends after `WHERE`", "has to follow"),
    ("SELECT o.id FROM orders o JOIN payments p ON", "1:43", "ends after `ON`", "has to follow"),
    (PLAIN + " WHERE o.id > 3 && p.id > 3", "1:83", "`&&`", "write AND"),
    (PLAIN + " WHERE o.id => 3", "1:79", "`=>`", "write >="),
    ("SELECT CASE WHEN o.id > 3 THEN 1" + JOIN, "1:8", "this CASE has no END", "END"),
    (PLAIN + " WHERE o.status = 'it's'", "1:90", "the quote ' is not closed", "''"),
    ("# mine\n" + PLAIN, "1:1", "does not begin a comment", "comments are --"),
    (PLAIN + " // mine", "1:68", "does not begin a comment", "comments are --"),
    (PLAIN + " EMIT CHANGES", "1:68", "EMIT is not supported", "leave it out"),
    (PLAIN + " WITHIN 5 MINUTES", "1:68", "WITHIN is not supported", "[RANGE 2 MINUTES]"),
    # -- other statements
    ("SELECT * FROM orders", "1:15", "reads one stream, `orders`", "window functions"),
    ("SELECT o.id", "1:8", "there is no FROM", "SELECT … FROM"),
    ("SELECT FROM orders o, payments p", "1:1", "SELECT has no columns", "write *"),
    ("FROM orders", "1:1", "FROM is not supported", "begin with SELECT"),
    ("hello", "1:1", "begins with `hello`", "SELECT … FROM"),
    (" -- nothing\n", "1:1", "the SQL is empty", "SELECT"),
    ("EXPLAIN " + PLAIN, "1:1", "EXPLAIN is not supported", "query check FILE"),
    ("INSERT INTO x " + PLAIN, "1:1", "INSERT is not supported", "[sink]"),
    ("CREATE VIEW v AS " + PLAIN, "1:1", "CREATE is not supported", "[sink]"),
    ("SHOW TABLES", "1:1", "SHOW is not supported", "one SELECT"),
    (PLAIN + ";\nDROP TABLE orders", "2:1", "several statements", "file of its own"),
]


@pytest.mark.parametrize(("sql", "place", "name", "advice"), REFUSED)
def test_refusals_name_what_is_meant(
    sql: str, place: str, name: str, advice: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SqlError) as caught:
        query(sql)
    line, column = place.split(":")
    assert caught.value.where == f"q.toml: sql line {line} column {column}", str(caught.value)
    assert name in caught.value.what
    assert advice in caught.value.hint or advice in caught.value.what, str(caught.value)
    assert capfd.readouterr() == ("", "")  # the parser's own warnings are not for users


def test_the_advice_for_a_function_of_one_stream_works() -> None:
    found = query(
        "SELECT o.x, p.amount FROM (SELECT *, CAST(upper(status) AS string) AS x FROM orders) o"
        " JOIN payments p ON o.id = p.id"
    )
    assert [output.name for output in found.outputs] == ["x", "amount"]
