"""The drawing of the imports: rooms, arrows, circles and lines of a package made for it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("import_graph", ROOT / "tools" / "import_graph.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_checkout(root: Path, modules: dict[str, str]) -> Path:
    for name, text in modules.items():
        path = root / "lance_ops" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    return root


def test_rooms_that_import_each_other_are_a_circle_though_their_modules_are_none(tool, tmp_path):
    found = tool.measure(
        make_checkout(
            tmp_path,
            {
                "one/a.py": "from lance_ops.two.b import x\n",
                "two/b.py": "x = 1\n",
                "two/c.py": "def f():\n    from lance_ops.one import d\n    return d\n",
                "one/d.py": "",
            },
        )
    )
    assert found["circles of modules"] == []
    assert found["circles side by side"] == [["lance_ops.one", "lance_ops.two"]]
    assert found["arrows"] == 2
    assert found["imports"] == 2


def test_imports_for_the_type_checker_alone_make_circles_too(tool, tmp_path):
    found = tool.measure(
        make_checkout(
            tmp_path,
            {
                "one/a.py": "import lance_ops.one.b\n",
                "one/b.py": "if TYPE_CHECKING:\n    from lance_ops.one.a import x\n",
            },
        )
    )
    assert found["circles of modules"] == [["lance_ops.one.a", "lance_ops.one.b"]]


def test_lines_are_sorted_by_purpose(tool):
    lines = tool.count_lines('"""Doc.\n\nMore.\n"""\n\nimport os\n\n# why\nx = os.sep  # what\n')
    assert (lines.words, lines.imports, lines.code, lines.blank) == (5, 1, 1, 2)
    assert lines.total == 9


def test_this_checkout_has_no_circles(tool):
    found = tool.measure(ROOT)
    assert found["circles of modules"] == []
    assert found["circles side by side"] == []
