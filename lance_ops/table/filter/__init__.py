"""SQL filters: parsing, and evaluation on Arrow data.

A filter is one SQL condition. It is parsed once against a schema into a tree of frozen nodes
(`parse_filter`), which the scan evaluates (`evaluate`, `select`), from which the indices take the conditions
that they can answer, and which a transaction records (`Expression.to_sql`).

What a filter may contain: comparisons, also IS [NOT] DISTINCT FROM; AND, OR, NOT in three-valued logic; IN,
BETWEEN, LIKE, ILIKE with ESCAPE (a backslash by default), IS [NOT] NULL, TRUE, FALSE, UNKNOWN; + - * / % and
||; CAST, TRY_CAST and ::; CASE; list[1], struct.field and struct['field']; DATE, TIMESTAMP[(0|3|6|9)],
DECIMAL(p, s), INTERVAL and x'00' literals; the functions of `FUNCTIONS`, with `ALIASES`, and coalesce, nvl,
ifnull, nvl2, is_valid, regexp_match, EXTRACT, TRIM, SUBSTRING, POSITION. Names stand as they are (the first
part in any case) or in backticks; text stands in single or double quotes.

The rows that a filter selects are those that the peer selects, down to wrapping integers, the place of NaN
and the rounding of decimals. It differs where the peer contradicts itself or would change meaning without a
word:

- A number takes the type of the column that it is compared with wherever the comparison stands. In the peer
  it does so only at the top and below AND and OR, so that on a float32 column `f = 0.1` and `NOT (f = 0.1)`
  select the same rows.
- Integer constants are computed in 64 bits. The peer narrows them to the column's type first: for a tinyint
  column it reads `i > 100 + 100` as `i > -56`.
- A CAST that is written is carried out. The peer's optimizer moves it to the constant, so that `CAST(d AS
  INT) = 7` misses 7.5, `CAST(t AS TIMESTAMP) = ...` drops the fraction of the constant, and `CAST(i AS
  TINYINT) = 1` passes over values that do not fit, which are an error here; TRY_CAST makes them null.
- Where x is null, `x IN (1) AND x NOT IN (1, 2)` is null; the peer's optimizer makes it false, so that its
  negation selects nulls.
- A constant that does not fit the column's type is compared in a wider type (`i < 300` on a tinyint column is
  true); text constants are read as dates, timestamps, times, numbers or binary beside such a column. The peer
  refuses these.
- AND, OR, CASE and coalesce spare rows that are already decided from errors: `n <> 0 AND 10 / n > 1` is safe.
- Text in double quotes that is also the name of a column is refused; the peer compares the text.
- Whatever stands behind the condition (ORDER BY, a second statement) is refused; the peer ignores it. So are
  comparisons that chain (`a = b IN (c)`) and more than 40 levels of parentheses.
- IS DISTINCT FROM binds like the other comparisons, before AND and OR; the peer takes all that follows for
  its right side.
- current_date and today are the date in UTC at which the filter is parsed: a constant from then on, which is
  what a transaction records. Other functions whose value depends on when they are called (now, random, uuid
  ...) are refused, since a filter may be evaluated again.
- Not supported, since Arrow has no kernels for it: comparing whole lists or structs, text of lists and
  durations, shifts, || of binary, fields of the elements of a list, the parts of a duration; these functions
  of the peer: geo and hash functions, to_hex, levenshtein, find_in_set, substr_index, overlay,
  regexp_instr, cbrt, gcd, lcm, factorial, degrees, radians and the hyperbolic functions, date_bin, the
  formats of to_timestamp and to_date, arrow_cast to lists and intervals, map and struct functions, and the
  list functions beyond array_has, array_has_any, array_has_all, array_length, cardinality, empty and
  array_element.
- JSON documents stand only as arguments of json_get, json_get_string, json_get_int, json_get_float,
  json_get_bool, json_extract, json_exists, json_array_contains and json_array_length; their paths may have no
  conditions (`?(@.x > 1)`). A value that does not read as the type asked for is an error, as in the peer.
- Regular expressions are those of RE2, whose classes of digits and letters know ASCII only. Letters change
  case one by one: upper('ß') is 'ẞ', in the peer 'SS'. power() of decimals is a double.
"""

from lance_ops.table.filter.evaluate import evaluate, evaluate_values, select
from lance_ops.table.filter.expression import Column, Expression, Literal, conjuncts, format_path
from lance_ops.table.filter.functions import ALIASES, FUNCTIONS
from lance_ops.table.filter.render import render_column as column_sql
from lance_ops.table.filter.resolve import parse_filter, settled

__all__ = [
    "ALIASES",
    "FUNCTIONS",
    "Column",
    "Expression",
    "Literal",
    "column_sql",
    "conjuncts",
    "evaluate",
    "evaluate_values",
    "format_path",
    "parse_filter",
    "select",
    "settled",
]
