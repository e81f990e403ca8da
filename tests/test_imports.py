"""The house as DESIGN.md draws it: no import cycle, no two modules of one name, no long file, no part by name."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "metastable"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 310


def module_of(path):
    parts = ("metastable", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


class Imports(ast.NodeVisitor):
    """Modules of the package that a module imports, wherever it does so, with the line.

    Left out by name: the methods of Trajectory, and `load`, which look downstream when called.
    """

    def __init__(self, module):
        self.module = module
        self.package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
        self.found = {}

    def visit_ClassDef(self, node):
        if (self.module, node.name) != ("metastable.trajectory", "Trajectory"):
            return self.generic_visit(node)
        for child in node.body:
            if not isinstance(child, ast.FunctionDef):
                self.visit(child)
        return None

    def visit_FunctionDef(self, node):
        if (self.module, node.name) != ("metastable.trajectory", "load"):
            self.generic_visit(node)

    def visit_Import(self, node):
        for name in node.names:
            self.add(name.name, node.lineno)

    def visit_ImportFrom(self, node):
        home = node.module or ""
        if node.level:
            above = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
            home = ".".join([*above, home] if home else above)
        for name in node.names:
            full = f"{home}.{name.name}"
            self.add(full if full in MODULES else home, node.lineno)

    def add(self, name, line):
        if name in MODULES and name != self.module:
            self.found.setdefault(name, line)


def imports(module, text=None):
    reader = Imports(module)
    reader.visit(ast.parse(text or MODULES[module].read_text()))
    return reader.found


@cache
def graph():
    return {module: imports(module) for module in MODULES}


def cycles(edges):
    """Strongly connected components of more than one module (Tarjan, without recursion)."""
    index, low, held, order, found = {}, {}, [], iter(range(10**6)), []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = next(order)
        held.append(root)
        while work:
            node, following = work[-1]
            for other in following:
                if other not in index:
                    index[other] = low[other] = next(order)
                    held.append(other)
                    work.append((other, iter(edges[other])))
                    break
                if other in held:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = held.index(node)
                    component, held[at:] = held[at:], []
                    if len(component) > 1:
                        found.append(sorted(component))
    return found


def test_no_import_cycle():
    edges = graph()
    found = cycles(edges)
    told = [
        f"{a} -> {b} (line {edges[a][b]})" for group in found for a in group for b in edges[a] if b in group and a != b
    ]
    assert not found, "\n".join(told)


def test_the_reader_sees_imports_in_functions_and_for_types():
    lazy = "def f():\n    from metastable.solve.simulate import simulate\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from metastable.solve import simulate\n"
    for text in (lazy, typed):
        changed = graph() | {"metastable.errors": imports("metastable.errors", text)}
        assert any("metastable.errors" in group for group in cycles(changed))
    method = "class Trajectory:\n    def save(self):\n        from metastable.solve.simulate import simulate\n"
    assert not imports("metastable.trajectory", method)


def places():
    """Module or folder -> its line in the table of docs/design.md, in the order of imports."""
    text = (SOURCE.parents[1] / "docs" / "design.md").read_text()
    table = text[text.index("| place | holds |") :].partition("\n\n")[0]
    found = {}
    for line, row in enumerate(table.splitlines()[2:]):
        home = ""
        for name in re.findall(r"`([^`]+)`", row.split("|")[1]):
            folder, _, file = name.rpartition("/")
            home = f"{folder}/" if folder and file else home  # what follows `solve/methods.py` lies beside it
            path = f"{home}{file}".removesuffix(".py") if file else folder
            found["metastable." + path.replace("/", ".")] = line
    return found


def test_a_folder_imports_from_above_only():
    lines = places()

    def line(module):
        homes = [place for place in lines if module == place or module.startswith(place + ".")]
        return lines[max(homes, key=len)] if homes else None

    unknown = {module for module in MODULES if line(module) is None}
    assert unknown == {"metastable", "metastable.solve"}, "not in the table of docs/design.md"
    assert not [place for place in lines if place not in MODULES], "not in the package"
    below = [
        f"{module} (line {number}) imports {other}"
        for module, found in graph().items()
        for other, number in found.items()
        if not {module, other} & unknown and line(other) > line(module)
    ]
    assert not below, "\n".join(below)


def test_no_two_modules_of_one_name():
    names = [path.stem for path in FILES if path.stem != "__init__"]
    assert not sorted({name for name in names if names.count(name) > 1})


def test_no_long_file():
    lines = {module_of(path): len(path.read_text().splitlines()) for path in FILES}
    assert not {module: count for module, count in lines.items() if count > MOST_LINES}


_PART = r"(?:geometry|normalise|normalisation|mask|score|method|position)"
PART_NAMES = [
    rf"\b\w*{_PART}(?:_name|\.name)\s*(?:==|!=|in\b|not in\b)",
    r"\b(?:how|part|space)\.name\s*(?:==|!=|in\b|not in\b)",
    rf"[\"']{_PART}[\"']\]?\)?\s*(?:==|!=|in\b|not in\b)\s*\(?[\"']",
    rf"\.{_PART}\s*(?:==|!=|in\b|not in\b)\s*\(?[\"']",
    r"\bmethod\s*(?:==|!=|in\b|not in\b)\s*\(?[\"']",
]


def test_nobody_asks_a_part_for_its_name():
    found = []
    for path in FILES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("  #")[0]
            if any(re.search(pattern, code) for pattern in PART_NAMES):
                found.append(f"{path.relative_to(SOURCE)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


GONE = [
    "simulate_many", "geometry_name", "mask_name", "normalise_name", "score_name", "run_pieces", "SOLVERS",
    "against_lanes",
]  # fmt: skip


def test_old_names_are_gone():
    found = []
    for path in FILES:
        text = path.read_text()
        if not any(name in text for name in GONE):
            continue
        tree = ast.parse(text)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
        found += [f"{path.relative_to(SOURCE)}: {name}" for name in GONE if name in names]
    assert not found, "\n".join(found)


def test_names_in_backticks_are_there():
    """What docstrings and pages call `metastable.something` can be looked up under that name."""
    pages = [*FILES, *SOURCE.parents[1].glob("docs/*.md"), SOURCE.parents[1] / "README.md"]
    named = {name: path for path in pages for name in re.findall(r"`(metastable(?:\.[A-Za-z_]\w*)+)", path.read_text())}
    assert [f"{name} in {path.name}" for name, path in named.items() if not _is_there(name)] == []


def _is_there(name):
    parts = name.split(".")
    home = next(".".join(parts[:k]) for k in range(len(parts), 0, -1) if ".".join(parts[:k]) in MODULES)
    found = importlib.import_module(home)
    for part in parts[home.count(".") + 1 :]:
        found = getattr(found, part, None)
    return found is not None
