"""The order of imports and the promises about the tree, read off the source."""

import ast
import re
from pathlib import Path

import pytest

import symdebias

ROOT = Path(symdebias.__file__).parent
# Left may be imported by right; what stands in one group never imports from another member of it.
LAYERS = [
    {"exceptions"},
    {
        "_domains",
        "_fieller",
        "_tails",
        "_arrays",
        "_blas",
        "_tables",
        "_randomness",
        "_optional",
        "_limits",
        "_files",
        "_forks",
        "_garbage",
        "_gauss",
        "_columns",
        "_markup",
        "_names",
        "_loss_names",
        "_metric_names",
        "_rows",
        "_copies",
        "_table_rows",
        "_parquet",
        "_progress",
    },
    {"losses", "noise", "zonal", "privacy", "codegen", "inference"},
    {"bounds"},
    {"mechanisms", "transforms"},
    {"labels"},
    {"release"},
    {"derivation"},
    {"declared"},
    {"correction"},
    {"reading"},
    {"records"},
    {"assessment"},
    {"corrected"},
    {"driver"},
    {"checks"},
    {"solvers"},
    {"evaluation", "planning", "quadratic", "blocks"},
    {"interfaces"},
    {"__main__"},
]
# The foundations may use one another.
MAY_USE_SIBLINGS = LAYERS[1]
OPTIONAL_PACKAGES = {
    "clarabel", "dask", "distributed", "dp_accounting", "formulaic", "matplotlib", "narwhals", "opendp", "pandas",
    "polars", "pyarrow", "shtab", "sklearn", "torch", "tqdm",
}  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))


def part(path):
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "symdebias":
                yield from ((node, f"symdebias.{alias.name}") for alias in node.names)
            else:
                yield node, node.module


def layer(name):
    (index,) = [index for index, group in enumerate(LAYERS) if name in group]
    return index


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_point_one_way(path):
    here = part(path)
    if here == "__init__":
        return
    for node, module in imports(path):
        # The root imports nothing by itself: its version is everyone's.
        if not module.startswith("symdebias."):
            continue
        there = module.split(".")[1]
        if there == here:
            continue
        siblings = layer(there) == layer(here)
        allowed = here in MAY_USE_SIBLINGS if siblings else layer(there) < layer(here)
        assert allowed, f"{path.name}:{node.lineno} imports {module}"


def test_modules_import_one_another_in_no_circle():
    """What is imported where a module is read; the front door imports rooms when they are asked for."""
    names = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES
    }
    needed = {}
    for name, path in names.items():
        body = [node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.Import, ast.ImportFrom))]
        found = {alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}
        for node in body:
            if isinstance(node, ast.ImportFrom):
                found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        # A room that is named for one of its modules is not needed whole.
        found -= {room for room in found if any(other.startswith(f"{room}.") and other in names for other in found)}
        needed[name] = found & set(names) - {name, "symdebias"}
    assert needed["symdebias.release.release"] >= {"symdebias.release.noised"}
    while leaves := {name for name, others in needed.items() if not others & set(needed)}:
        needed = {name: others for name, others in needed.items() if name not in leaves}
    assert not needed, f"in a circle or above one: {', '.join(sorted(needed))}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_optional_packages_come_through_one_door(path):
    for node, module in imports(path):
        assert module.split(".")[0] not in OPTIONAL_PACKAGES, f"{path.name}:{node.lineno} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_stands_inside_a_function(path):
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                assert not isinstance(node, (ast.Import, ast.ImportFrom)), f"{path.name}:{node.lineno}"


def test_one_module_draws_noise():
    drawing = {
        path.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"normal", "standard_normal", "laplace", "random"}
        and part(path) in {"mechanisms", "release", "noise", "privacy"}
    }
    # The second draws long streams for the first.
    assert drawing <= {"sampling.py", "streams.py"}


def test_types_of_arrays_have_the_names_of_one_module():
    """Annotations are held against what a saved fit holds, and `numpy.typing.NDArray` is an alias of newer NumPy."""
    for path in FILES:
        for node, _ in imports(path):
            assert "NDArray" not in {name.name for name in node.names}, f"{path.name}:{node.lineno}"


def test_every_module_says_what_it_is_for():
    for path in FILES:
        text = path.read_text()
        assert not text or ast.get_docstring(ast.parse(text)), path


def test_the_documentation_has_every_part_and_the_order_of_imports():
    """A new module at the top has a line in the table, and a place in the order."""
    text = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
    parts = text.split("## The order of imports")[0]
    missing = [name for group in LAYERS for name in group if f"{name}.py" not in parts and f"{name}/" not in parts]
    assert missing == ["__main__"]
    (order,) = re.findall(r"```text\n(exceptions.*?)```", text, re.DOTALL)
    told = [set(re.findall(r"\w+", group)) for group in order.split("<")]
    assert [*told, {"__main__"}] == LAYERS
