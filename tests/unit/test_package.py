"""Laws of the whole package: every module imports, imports point one way, public names are there."""

import ast
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import icelens

SRC = Path(icelens.__file__).parent
# Arrows point to the importer: a part may import only from the rows above its own.
LAYERS = [
    {
        "errors",
        "counts",
        "files",
        "lazy",
        "processes",
        "progress",
        "matrices",
        "transforms",
        "ranks",
        "confidence",
        "fused_kernel",
    },
    {"fused"},
    {"losses", "noise"},
    {"data", "models", "plots"},
    {"dynamics"},
    {"train"},
    {"auditing"},
    {"review"},
    {"export"},
    {"integrations"},
    {"door", "demo", "reproduce"},
    {"cli"},
    {"__main__"},
]
# Within the first row.
EARLIER = {
    "confidence": {"errors", "ranks"},
    "ranks": {"errors"},
    "matrices": {"errors"},
    "transforms": {"errors"},
    "progress": set(),
    "files": set(),
    "lazy": set(),
    "counts": set(),
    "processes": set(),
    "errors": set(),
}


def modules():
    return [
        info.name for info in pkgutil.walk_packages([str(SRC)], "icelens.") if info.name != "icelens.__main__"
    ]


def test_every_module_imports():
    assert len(modules()) > 40
    for name in modules():
        if name != "icelens.fused_kernel" or importlib.util.find_spec("triton"):
            importlib.import_module(name)


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "icelens":
            parts = node.module.split(".")[1:]
            yield from [parts[0]] if parts else [alias.name for alias in node.names]


def test_imports_point_one_way():
    checked = 0
    for path in SRC.rglob("*.py"):
        part = path.relative_to(SRC).with_suffix("").parts[0]
        if part == "__init__":
            continue
        layer = next(number for number, names in enumerate(LAYERS) if part in names)
        allowed = set().union(*LAYERS[:layer]) | {part, "__version__"} | EARLIER.get(part, set())
        wrong = set(imported_parts(path)) - allowed
        assert not wrong, f"{path} imports {wrong}"
        checked += 1
    assert checked > 40


def test_public_names_are_there_and_no_others_are_promised():
    for name in icelens.__all__:
        assert getattr(icelens, name) is not None
    promised = {name for names in icelens._HOMES.values() for name in names}
    assert promised | {"__version__"} == set(icelens.__all__)


def test_the_core_needs_torch_alone():
    code = (
        "import sys, icelens.losses, icelens.noise; "
        "heavy = {'pandas', 'sklearn', 'matplotlib', 'scipy', 'rich', 'typer'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
