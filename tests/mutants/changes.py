"""Small changes of a module's source, one at a time: each is a mutant."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.MatMult: ast.Add,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A changed source, where it was changed and how."""

    line: int
    what: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a source, in the order of its lines; docstrings, messages and annotations stay as they are."""
    tree = ast.parse(source)
    places = sorted(_places(tree), key=lambda found: (found[0].lineno, found[0].col_offset, found[1]))
    for node, what in places:
        changed = copy.deepcopy(tree)
        twin = next(
            other
            for other in ast.walk(changed)
            if type(other) is type(node) and _where(other) == _where(node) and ast.dump(other) == ast.dump(node)
        )
        _change(twin, what)
        yield Mutant(node.lineno, f"{what}: {ast.unparse(node)[:60]}", ast.unparse(ast.fix_missing_locations(changed)))


def _where(node: ast.AST) -> tuple[int, int, int, int]:
    return tuple(getattr(node, name, -1) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))  # type: ignore[return-value]


def _places(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    silent = {id(inner) for node in ast.walk(tree) for part in _unchecked(node) for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            yield node, "operator"
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OPERATORS:
            yield node, "comparison"
        elif isinstance(node, ast.BoolOp):
            yield node, "logic"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            yield node, "sign"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            yield node, "constant"


def _unchecked(node: ast.AST) -> list[ast.AST]:
    """Parts whose changes nobody need notice: annotations, decorators, what an error says."""
    if isinstance(node, ast.FunctionDef):
        return [*(a.annotation for a in node.args.args if a.annotation), *([node.returns] if node.returns else [])]
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)):
        return [node]
    return []


def _change(node: ast.AST, what: str) -> None:
    if isinstance(node, ast.BinOp):
        node.op = _OPERATORS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Compare):
        node.ops[0] = _OPERATORS[type(node.ops[0])]()  # type: ignore[assignment,call-overload]
    elif isinstance(node, ast.BoolOp):
        node.op = _OPERATORS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd()  # -a becomes a, and `not a` the number of a, true where a is
    elif isinstance(node, ast.Constant):
        value = node.value
        node.value = (not value) if isinstance(value, bool) else value + 1  # type: ignore[operator]
