import dataclasses

import pytest

from icelens.errors import FileError, InputError, MissingFileError
from icelens.train import SETTINGS, Recipe, make_recipe, read_recipe, recipe


def test_every_setting_says_what_it_means():
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(Recipe)}
    assert all(meaning.endswith(".") for meaning in SETTINGS.values())


def test_a_file_then_overrides(tmp_path):
    path = tmp_path / "gce.toml"
    path.write_text('loss = "gce"\nepochs = 3\n[loss_settings]\nq = 0.5\n')
    recipe = read_recipe(path, ["epochs=7", "loss_settings.q=0.25", "model=cnn", "normalize=true"])
    assert (recipe.loss, recipe.epochs, recipe.loss_settings) == ("gce", 7.0, {"q": 0.25})
    assert (recipe.model, recipe.normalize) == ("cnn", True)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("los=gce", "unknown setting 'los'; did you mean 'loss'?"),
        ("lr=0.1", "unknown setting 'lr'; did you mean 'learning_rate'?"),
        ("wd=0", "unknown setting 'wd'; did you mean 'weight_decay'?"),
        ("noise_rate=1.2", r"noise_rate must lie in \[0, 1\), got 1.2"),
        ("validation=1.0", r"validation must lie in \[0, 1\), got 1.0"),
        ("seed=1.5", "seed must be a whole number, got 1.5"),
        ("seed=true", "seed must be a whole number, got True"),
        ("epochs=many", "epochs must be a number, got 'many'"),
        ("batch_size=0", "batch_size must be at least 1 and finite, got 0"),
        ("epochs=nan", "epochs must be at least 0.0 and finite, got nan"),
        ("epochs=0", "iterations and epochs are both 0"),
        ("optimizer=adamm", "unknown optimizer 'adamm'; did you mean 'adam'?"),
        ("schedule=cosine", "unknown schedule 'cosine'"),
        ("mixup=-1", "mixup must be at least 0.0 and finite, got -1.0"),
        ("averaging=1", r"averaging must lie in \[0, 1\), got 1.0"),
        ("loss", "'loss' is not of the form key=value"),
        ("noise_rate=", "'noise_rate=' has no value after the ="),
        ("root= ", "'root= ' has no value after the ="),
        ("loss_settings.q=", "'loss_settings.q=' has no value after the ="),
        ("learning_rate=1e-", "learning_rate must be a number, got '1e-'"),
        ("learning_rate=-", "learning_rate must be a number, got '-'"),
        ("epochs=1_", "epochs must be a number, got '1_'"),
        ("noise_rate=.", "noise_rate must be a number, got '.'"),
        ("seed.x=1", "only model_settings and loss_settings"),
    ],
)
def test_one_clear_line_for_a_bad_override(override, message):
    with pytest.raises(InputError, match=message) as caught:
        read_recipe(overrides=[override])
    assert "\n" not in str(caught.value)


def test_names_of_other_tools_lead_to_settings_that_are_there():
    assert set(recipe._ELSEWHERE.values()) <= set(SETTINGS)
    assert not set(recipe._ELSEWHERE) & set(SETTINGS)


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "cifar.toml"
    path.write_text('los = "gce"\n')
    with pytest.raises(InputError, match=r"cifar.toml: unknown setting 'los'; did you mean 'loss'\?"):
        read_recipe(path)
    path.write_text("loss = \n")
    with pytest.raises(FileError, match=r"cifar.toml: not a recipe in TOML"):
        read_recipe(path)
    with pytest.raises(MissingFileError, match=r"absent.toml: no such recipe"):
        read_recipe(tmp_path / "absent.toml")


def test_whole_numbers_are_floats_where_floats_are_wanted():
    assert make_recipe({"learning_rate": 1}).learning_rate == 1.0


def test_numbers_and_truths_as_people_type_them():
    recipe = read_recipe(overrides=["noise_rate=.2", "epochs=1.", "normalize=True", "model=cnn"])
    assert (recipe.noise_rate, recipe.epochs, recipe.normalize, recipe.model) == (0.2, 1.0, True, "cnn")
    recipe = read_recipe(overrides=["noise_rate = .2", "learning_rate=+.5e-3", "loss_settings.a=-.5"])
    assert (recipe.noise_rate, recipe.learning_rate, recipe.loss_settings) == (0.2, 5e-4, {"a": -0.5})


@pytest.mark.parametrize("text", ["x1F", "b1", ".", "..", "./1", "runs.", ".5a"])
def test_a_string_is_not_made_a_number(text):
    assert read_recipe(overrides=[f"root={text}"]).root == text
