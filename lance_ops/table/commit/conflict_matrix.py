"""Conflict matrix: which commits collide, as a table.

A row is the operation that is being committed, a column one that another writer has committed since our read
version. Source: format, "Conflict resolution", and the behaviour of pylance (`test_conflict_matrix.py` drives
both, and names the cells where ours is stricter).

Symbols:

- `.` compatible: both commits are valid
- `r` retryable: the operation may succeed if planned again from the head
- `X` incompatible: the other commit contradicts this operation
- a word: the rule of that name in `conflict_rules`, which looks into both operations

An unknown operation is not in the table: it conflicts with everything (`judge`).
"""

from collections.abc import Mapping

from lance_ops.table.commit.conflict_rules import (
    RULES,
    Rule,
    Verdict,
    compatible,
    incompatible,
    retryable,
)
from lance_ops.table.transaction.transaction import Transaction

MATRIX = """
ours \\ theirs     Append Delete Update Overwrite CreateIndex Rewrite Merge Restore ReserveFragments Project
Append            .      .      .      X         .           .       null  X       .                null
Delete            .      rows   rows   X         .           follow  r     X       .                .
Update            added  rows   added  X         .           follow  r     X       .                null
Overwrite         .      .      .      config    .           .       .     .       .                .
CreateIndex       .      .      prune  X         index       moved   kept  X       .                kept
Rewrite           .      carry  carry  X         built       frag    r     X       .                .
Merge             schema schema schema X         memwal      schema  r     X       .                r
Restore           .      .      .      .         .           .       .     .       .                .
ReserveFragments  .      .      .      X         .           .       .     X       .                .
Project           null   .      null   X         .           .       r     X       .                r
UpdateConfig      .      .      .      config    .           .       meta  back    .                kept
DataReplacement   .      there  there  X         field       there   r     X       .                there

ours \\ theirs     UpdateConfig DataReplacement DataOverlay UpdateMemWalState Clone UpdateBases
Append            .            .               .           X                 .     .
Delete            .            frag            .           X                 .     .
Update            .            r               r           X                 .     .
Overwrite         config       .               .           X                 .     .
CreateIndex       .            field           .           X                 .     .
Rewrite           .            frag            frag        .                 .     .
Merge             meta         schema          r           X                 .     .
Restore           back         .               .           X                 .     .
ReserveFragments  .            .               .           .                 .     .
Project           meta         null            null        X                 .     .
UpdateConfig      config       .               .           .                 .     .
DataReplacement   .            frag            frag        X                 .     .
"""


def _parse_matrix(text: str) -> Mapping[tuple[str, str], Rule]:
    cells: dict[tuple[str, str], Rule] = {}
    columns: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[:3] == ["ours", "\\", "theirs"]:
            columns = words[3:]
            continue
        row, symbols = words[0], words[1:]
        for column, symbol in zip(columns, symbols, strict=True):
            cells[row, column] = RULES[symbol]
    return cells


RULE_OF: Mapping[tuple[str, str], Rule] = _parse_matrix(MATRIX)
"""Matrix by (kind of ours, kind of theirs)."""


def judge(ours: Transaction, theirs: Transaction) -> Verdict:
    """Decide whether our transaction can still be committed after another one.

    Args:
        ours: The transaction to commit.
        theirs: A transaction committed after our read version.

    Returns:
        Verdict of the matrix cell. An operation of unknown kind is a retryable conflict (architecture,
        invariant 1).
    """
    rule = RULE_OF.get((ours.operation.kind, theirs.operation.kind))
    if rule is None:
        return retryable("the other commit has an operation that this version of lance_ops does not know")
    return rule(ours.operation, theirs.operation)


__all__ = [
    "MATRIX",
    "RULE_OF",
    "Verdict",
    "compatible",
    "incompatible",
    "judge",
    "retryable",
]
