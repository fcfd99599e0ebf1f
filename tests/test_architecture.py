"""Claims about the house: imports point one way, one module knows MPI, files stay small and are named for an idea."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pdes.engine.jit import FREE_OF_KERNELS

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pdes", "partition", "models")
LEAVES = ("pdes.errors", "pdes.files", "pdes.random_plain", "pdes.units")
ONLY_IMPORTS = {  # what modules below the key may import of ours, besides each other
    "models": (*LEAVES, "pdes.engine", "pdes.skipping"),
    "models.workload": (*LEAVES, "pdes.engine", "models.compute", "models.topology"),  # the network runs it
    "pdes.engine": LEAVES,
    "pdes.skipping": (*LEAVES, "pdes.engine"),
    "pdes.results": LEAVES,
    "pdes.config": LEAVES,
    "pdes.convert": LEAVES,
    "partition": (),
}
TOP = (
    "pdes.calibrating",
    "pdes.checkpoint_places",
    "pdes.cli",
    "pdes.commands",
    "pdes.cluster",
    "pdes.debug",
    "pdes.experiments",
    "pdes.simulation",
    "pdes.scenario",
    "pdes.sweeps",
    "pdes.searching",
    "pdes.plan",
    "pdes.result",
    "pdes.explain",
    "pdes.plan_ranks",
    "pdes.plan_modes",
)  # the only ones that know models, partition and results
MAX_LINES = {"pdes": 350, "partition": 350, "models": 350, "tests": 500, "bench": 500}  # of a file, by top folder
MANY_LINES: dict[str, int] = {}  # that have still to be split
MAX_ARGUMENTS = 8  # of a function of the packages, self not counted
MANY_ARGUMENTS: dict[str, int] = {}  # that have still to become bundles
MAX_FILES = 20  # in a folder of the packages, __init__ included
MANY_FILES: dict[str, int] = {}  # that have still to be split
CIRCLES = (  # files that still import each other
    {f"models.workload.compiler.{name}" for name in ("dual_pipe", "schedule", "zero_bubble")},
)
UNITS = {"PS_PER_NS", "PS_PER_US", "PS_PER_MS", "PS_PER_S", "NS_PER_S", "BITS_PER_BYTE"}
DECORATORS = (  # of pdes.engine.jit: what is compiled, and the layout of records that is compiled into it
    "kernel", "loop_kernel", "step_kernel", "fast_step", "inlined", "program_kernel", "parallel_kernel", "record",
)  # fmt: skip
VAGUE_NAMES = {"utils.py", "util.py", "common.py", "helpers.py", "misc.py"}


def source_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str, module: str, is_package: bool) -> Iterator[str]:
    """Full names that a module imports, wherever in it; `from a import b` counts as a.b, relative names resolved."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            n_up = node.level - is_package
            base = ".".join(module.split(".")[: len(module.split(".")) - n_up]) if node.level else ""
            prefix = ".".join(part for part in (base, node.module) if part)
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def is_below(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@cache
def all_imports() -> list[tuple[str, str]]:
    """(module, imported name) for every import of the installed packages."""
    return [
        (module_name(path), name)
        for path in source_files(*PACKAGES)
        for name in imports_of(path.read_text(), module_name(path), path.name == "__init__.py")
    ]


def test_the_reader_of_imports_sees_every_form() -> None:
    source = "import a.b\nfrom c import d\ndef f():\n    from . import e\n    from ..g import h\n    from .i import j\n"
    assert list(imports_of(source, "pdes.x.y", False)) == ["a.b", "c.d", "pdes.x.e", "pdes.g.h", "pdes.x.i.j"]
    assert list(imports_of("from . import e", "pdes.x", True)) == ["pdes.x.e"]


@pytest.mark.parametrize("package", ONLY_IMPORTS)
def test_imports_point_one_way(package: str) -> None:
    allowed = (package, *ONLY_IMPORTS[package])
    ours = [(module, name) for module, name in all_imports() if is_below(module, package) and is_below(name, *PACKAGES)]
    assert [f"{module} imports {name}" for module, name in ours if not is_below(name, *allowed)] == []


def test_only_the_top_knows_models_partition_and_results() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, name in all_imports()
        if is_below(name, "models", "partition", "pdes.results")
        and not is_below(module, *TOP, "models", "partition", "pdes.results")
    ]
    assert wrong == []


def test_only_the_exchange_imports_mpi4py() -> None:
    users = {module for module, name in all_imports() if is_below(name, "mpi4py")}
    assert users <= {"pdes.engine.exchange"}


def test_the_leaves_import_nothing_of_ours_but_each_other() -> None:
    wrong = [
        (module, name)
        for module, name in all_imports()
        if module in LEAVES and is_below(name, *PACKAGES) and not is_below(name, *LEAVES)
    ]
    assert wrong == []


def circles_of(imports: dict[str, set[str]]) -> list[set[str]]:
    """Largest sets of modules of which each reaches each other one by imports; of two modules at least."""

    def reached_from(module: str) -> set[str]:
        found: set[str] = set()
        left = [module]
        while left:
            new = imports[left.pop()] - found
            found |= new
            left += new
        return found

    reached = {module: reached_from(module) for module in imports}
    found = [{other for other in reached[module] if module in reached[other]} for module in imports]
    return [circle for i, circle in enumerate(found) if len(circle) > 1 and circle not in found[:i]]


def test_circles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
    assert circles_of(imports) == [{"a", "b", "c"}, {"d", "e"}]


def test_files_do_not_import_each_other_in_circles() -> None:
    """Imports in functions and for types count: whoever reads has to follow them, too."""
    modules = {module_name(path) for path in source_files(*PACKAGES)}
    imports: dict[str, set[str]] = {module: set() for module in modules}
    for module, name in all_imports():
        imports[module] |= {name if name in modules else name.rpartition(".")[0]} & modules
    circles = [circle for circle in circles_of(imports) if not any(circle <= known for known in CIRCLES)]
    assert [sorted(circle) for circle in circles] == []


def test_kernels_are_made_of_nothing_that_is_left_out_of_their_hash() -> None:
    """Nothing that a module with kernels imports, and nothing that this imports, is in a folder free of kernels."""
    modules = {module_name(path) for path in source_files(*PACKAGES)}
    imports: dict[str, set[str]] = {module: set() for module in modules}
    reached: set[str] = set()
    for module, name in all_imports():
        imports[module] |= {name if name in modules else name.rpartition(".")[0]} & modules
        if name.startswith("numba") or name in [f"pdes.engine.jit.{decorator}" for decorator in DECORATORS]:
            reached.add(module)
    assert len(reached) > 100
    left = list(reached)
    while left:
        new = imports[left.pop()] - reached
        reached |= new
        left += new
    free = [f"models.{folder.replace('/', '.')}" for folder in FREE_OF_KERNELS]
    assert [module for module in sorted(reached) if is_below(module, *free)] == []
    assert {folder for folder in FREE_OF_KERNELS if not (ROOT / "models" / folder).is_dir()} == set()


def test_units_are_defined_once() -> None:
    """`partition` imports nothing of ours, so it has its own."""
    assigned = [
        f"{module_name(path)}: {target.id}"
        for path in source_files("pdes", "models")
        for node in ast.walk(tree_of(path))
        for target in (ast.walk(node) if isinstance(node, ast.Assign) else ())
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store) and target.id in UNITS
    ]
    assert sorted(assigned) == sorted(f"pdes.units: {name}" for name in UNITS)


def test_no_file_is_too_long() -> None:
    long = {
        str(path.relative_to(ROOT)): n
        for folder, most in MAX_LINES.items()
        for path in source_files(folder)
        if (n := len(path.read_text().splitlines())) > most
    }
    assert {name: n for name, n in long.items() if n > MANY_LINES.get(name, 0)} == {}
    assert set(MANY_LINES) - set(long) == set(), "no exceptions any more"


def n_argument(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many arguments a function has, self and cls not counted."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_no_function_has_too_many_arguments() -> None:
    many = [
        (f"{path.relative_to(ROOT)}:{node.name}", n_argument(node))
        for path in source_files(*PACKAGES)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and n_argument(node) > MAX_ARGUMENTS
    ]
    assert [(name, n) for name, n in many if n > MANY_ARGUMENTS.get(name, MAX_ARGUMENTS)] == []
    assert set(MANY_ARGUMENTS) - {name for name, _ in many} == set(), "no exceptions any more"


def test_no_folder_holds_too_many_files() -> None:
    n_file = Counter(str(path.parent.relative_to(ROOT)) for path in source_files(*PACKAGES))
    assert {name: n for name, n in n_file.items() if n > MANY_FILES.get(name, MAX_FILES)} == {}


def test_files_are_named_for_an_idea() -> None:
    assert [str(path) for path in source_files(*PACKAGES, "tests", "bench") if path.name in VAGUE_NAMES] == []


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in source_files(*PACKAGES) if path.read_text() and not ast.get_docstring(tree_of(path))]
    assert [str(path) for path in silent] == []
