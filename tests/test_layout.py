"""Who may import whom (the house rules), and names a 2020 submission counts on."""

import ast
import importlib
from pathlib import Path

import pytest
from conftest import ROOT

OURS = {"utils", "scoring", "deid", "examples", "benchmarks", "tests", "main", "tournament", "prepare_data", "audit"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name.split(".")[0] in OURS or name.startswith(("hider_", "seeker_"))}


def files(pattern: str) -> list:
    found = sorted(ROOT.glob(pattern))
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in found]


@pytest.mark.parametrize("path", files("utils/**/*.py"))
def test_utils_import_nothing_of_ours_but_utils(path):
    assert {name.split(".")[0] for name in ours(path)} <= {"utils"}


@pytest.mark.parametrize("path", files("hider_*.py") + files("seeker_*.py"))
def test_a_method_imports_utils_and_examples_only(path):
    assert {name.split(".")[0] for name in ours(path)} <= {"utils", "examples"}
    folders = {tuple(name.split(".")[:3]) for name in ours(path) if name.startswith("examples")}
    assert len(folders) <= 1, "never another method's folder"
    assert any(
        isinstance(node, ast.FunctionDef) and node.name == path.stem.split("_")[0]
        for node in ast.parse(path.read_text()).body
    )


@pytest.mark.parametrize("path", files("examples/*/*/*.py"))
def test_supporting_code_imports_utils_and_its_own_folder(path):
    own = ".".join(path.relative_to(ROOT).parts[:3])
    assert all(name.split(".")[0] == "utils" or name.startswith(own) for name in ours(path))


@pytest.mark.parametrize("path", files("scoring/**/*.py"))
def test_scoring_knows_players_only_through_the_contract(path):
    assert {name.split(".")[0] for name in ours(path)} <= {"utils", "scoring"}


@pytest.mark.parametrize("path", files("scoring/**/*.py"))
def test_no_file_of_scoring_is_longer_than_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def modules() -> dict[str, Path]:
    """Every module of ours that others import, by name."""
    folders = ("utils", "scoring", "deid", "examples")
    paths = [*ROOT.glob("*.py"), *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imported_modules(path: Path, known: set[str]) -> set[str]:
    """The modules of ours that a file imports, at its top or inside functions; `from package import module` counts."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & known
            # A package that only hands out its modules is not itself imported from.
            found |= inside or {node.module}
            if inside and len(inside) < len(node.names):
                found.add(node.module)
    return found & known


def test_no_modules_import_each_other_in_a_circle_not_even_inside_functions():
    paths = modules()
    imports_of = {name: imported_modules(path, set(paths)) for name, path in paths.items()}
    # What imports nothing that is left is in no circle. Whatever remains at the end is, or leads into one.
    left = dict(imports_of)
    while free := [name for name, found in left.items() if not found & (left.keys() - {name})]:
        for name in free:
            del left[name]
    assert left == {}


@pytest.mark.parametrize("name", ["main.py", "tournament.py", "prepare_data.py"])
def test_command_lines_parse_arguments_and_call_one_function(name):
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.While, ast.ClassDef, ast.Try))]
    assert not {"numpy", "polars"} & imports(ROOT / name), "data is worked on in scoring/"
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= 150
    assert {module.split(".")[0] for module in ours(ROOT / name)} <= {"scoring", "utils"}


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "utils.data_preprocess",
            "load_and_reshape preprocess_data imputation get_medians get_scaler impute process to_2d to_3d "
            "PADDING_FILL",
        ),
        ("utils.data_utils", "data_division"),
        ("utils.general_rnn", "GeneralRNN mse_loss binary_cross_entropy_loss rnn_sequential"),
        ("utils.metric_utils", "reidentify_score rmse_error feature_prediction one_step_ahead_prediction"),
        (
            "utils.misc",
            "tf115_found tfdeterminism_found fix_all_random_seeds temp_seed_numpy in_progress tf_fixed_seed_seesion "
            "tf_set_log_level read_competition_config redact_exception dump_redacted_exc time_limited",
        ),
        (
            "utils.solutions",
            "load_data load_generated_data parse_hider_output validate_hider_output validate_seeker_output "
            "benchmark_hider",
        ),
        ("examples.hider.add_noise.add_noise", "add_noise"),
        ("examples.hider.timegan.timegan", "timegan"),
        (
            "examples.hider.timegan.utils",
            "train_test_divide extract_time rnn_cell random_generator batch_generator",
        ),
        ("examples.seeker.knn.knn_seeker", "knn_seeker"),
        ("examples.seeker.binary_predictor.binary_predictor", "binary_predictor"),
    ],
)
def test_the_names_a_2020_submission_imports_are_there(module, names):
    loaded = importlib.import_module(module)
    assert [name for name in names.split() if not hasattr(loaded, name)] == []
