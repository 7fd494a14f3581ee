"""Does `sps init` write what the other verbs take, and refuse in words what cannot be?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from simulator.cli import app
from simulator.predict import predict_scenario
from simulator.spec import library
from simulator.spec.describe import keys_of
from simulator.spec.hardware import HardwareProfile, Peaks
from simulator.spec.load import load_scenario
from simulator.spec.source import read
from simulator.spec.topology import SwitchTopology
from tests.builders import PROFILE

CASE = ("--model", "chinchilla-70b", "--hardware", "tpu_v4", "--chips", "16")
MODELS, PROFILES = library.names(library.MODELS), library.names(library.PROFILES)
# Every model on two chips of the list, and every chip with four models.
EVERY = [
    *((m, PROFILES[(i + k) % len(PROFILES)], (1, 4, 16)[(i + k) % 3]) for i, m in enumerate(MODELS) for k in (0, 7)),
    *((MODELS[(i + k) % len(MODELS)], h, (1, 4, 16)[k % 3]) for i, h in enumerate(PROFILES) for k in (3, 17, 31, 40)),
]


def sps(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def flat(text: str) -> str:
    return " ".join(text.replace("#", " ").split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("llama-3.3-70b", "did you mean 'llama-3.1-70b'?"),
        ("llama-3.1-8", "did you mean 'llama-3.1-8b'?"),
        ("nothing-like-it", "`sps list models` has their names"),
        ("medusa", "write draft: {kind: medusa, heads: 5} into the scenario"),
    ],
)
def test_an_unknown_model_leads_to_the_nearest_within_100_columns(name: str, said: str) -> None:
    result = sps("init", "--model", name, "--hardware", "h100_sxm", "--chips", "1")
    assert result.exit_code == 2
    assert said in flat(result.stderr)
    assert max(map(len, result.stderr.splitlines())) <= 100


def test_the_question_has_the_whole_name_of_the_draft_and_the_engines_that_are_known() -> None:
    text = sps("init", "--model", "qwen3-32b", "--hardware", "h100_sxm", "--chips", "2", "--draft", "qwen3-1.7b").stdout
    assert "with qwen3-1.7b as its draft" in text
    assert "Known on h100_sxm: huggingface-eager, vllm-0.9" in flat(text)


@pytest.mark.parametrize(("model", "hardware", "chips"), EVERY)
def test_every_pair_is_checked_and_predicted_or_refused_in_words(
    tmp_path: Path, model: str, hardware: str, chips: int
) -> None:
    file = tmp_path / "new.yaml"
    result = sps("init", "--model", model, "--hardware", hardware, "--chips", str(chips), "--out", str(file))
    if result.exit_code:
        assert result.exit_code == 2
        assert result.stderr.startswith(("--chips ", "--model ", "--hardware "))
        assert not file.exists()
        return
    assert sps("check", str(file)).exit_code == 0
    written = [point.scenario for point in load_scenario(file)]
    status = predict_scenario(next((s for s in written if s.decoding.lookahead == 4), written[0])).status
    assert status.state in ("ok", "does_not_fit")
    # Not fitting is an answer; it is told at once.
    assert result.stderr.startswith("does not fit: ") == (status.state == "does_not_fit")
    assert max(len(line) for line in file.read_text("utf-8").splitlines() if "#" in line) <= 100


def test_what_is_written_is_predicted(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    result = sps("init", *CASE, "--out", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"scenario: {file}", f"next: sps predict {file}"]
    predicted = sps("predict", str(file))
    assert predicted.exit_code == 0
    assert "calibration chen-2023" in predicted.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["new.yaml"]


def test_without_out_the_text_is_all_that_is_on_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = sps("init", *CASE)
    assert result.stderr == ""
    Path("mine.yaml").write_text(result.stdout, encoding="utf-8")
    assert "ok, chinchilla-70b-tpu-v4-16, 6 points" in sps("check", "mine.yaml").stdout
    assert "  slice: 2x2x4 " in result.stdout


def test_a_file_is_overwritten_only_when_forced(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text("mine", encoding="utf-8")
    refused = sps("init", *CASE, "--out", str(file))
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert file.read_text(encoding="utf-8") == "mine"
    assert sps("init", *CASE, "--out", str(file), "--force").exit_code == 0
    assert "target: chinchilla-70b" in file.read_text(encoding="utf-8")


def test_all_wrong_names_come_at_once_each_with_the_nearest() -> None:
    result = sps("init", "--model", "chinchila-70b", "--hardware", "tpu-v4", "--chips", "1", "--draft", "quickstart")
    assert result.exit_code == 2
    assert "--model chinchila-70b\n    accepts  the name of a model" in result.stderr
    assert "did you mean 'chinchilla-70b'?" in result.stderr
    assert "did you mean 'tpu_v4'?" in result.stderr
    assert result.stderr.splitlines()[-1] == "3 problems. Nothing was run."
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--chips", "0"), "--chips 0\n    accepts  a whole number, 1 to 100,000"),
        (("--chips", "10000000000"), "--chips 10000000000\n    accepts  a whole number, 1 to 100,000"),
        (("--batch", "0"), "--batch 0\n    accepts  a whole number"),
        (("--lookahead", "65"), "--lookahead 65\n    accepts  a whole number, 0 to 64"),
        (("--output-tokens", "1"), "--output-tokens 1\n    accepts  a whole number, 2 to"),
        (("--draft", "quickstart-draft-wide"), "--draft quickstart-draft-wide\n    accepts  a draft with the target's"),
        (("--model", "quickstart-draft-deep"), "--chips 16\n    accepts  at most 4"),
    ],
)
def test_what_cannot_be_is_told_of_the_option(words: tuple[str, str], said: str) -> None:
    result = sps("init", *CASE, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_the_draft_is_the_largest_below_a_fifteenth_and_the_others_are_named() -> None:
    out = sps("init", *CASE).stdout
    assert "  model: chinchilla-draft-4b " in out
    assert "the largest below a fifteenth of the target; also known: chinchilla-7b" in flat(out)
    above = sps("init", "--model", "llama-3.1-8b", "--hardware", "h100_sxm", "--chips", "1").stdout
    assert "  model: llama-3.2-1b " in above
    assert "the smallest, above a fifteenth of the target; also known: eagle-llama-3.1-8b, eagle3-llama-3.1-8b" in flat(
        above
    )


def test_without_a_match_there_is_no_draft_but_an_example() -> None:
    out = sps("init", "--model", "chinchilla-7b", "--hardware", "tpu_v4", "--chips", "4").stdout
    assert "  kind: none " in out
    assert "\n# draft: {kind: model, model: chinchilla-draft-4b}\n" in out
    smallest = sps("init", "--model", "chinchilla-draft-4b", "--hardware", "tpu_v4", "--chips", "4").stdout
    assert "\n# draft: {kind: model, model: my-draft.yaml}\n" in smallest


def test_a_draft_with_too_few_heads_lies_on_some_of_the_chips_or_is_left_out() -> None:
    some = sps("init", "--model", "quickstart-target-100m", "--hardware", "tpu_v4", "--chips", "12").stdout
    assert "    tensor_parallel: 6 " in some
    none = sps("init", "--model", "quickstart-target-100m", "--hardware", "cpu", "--chips", "16").stdout
    assert "  kind: none " in none
    assert "Not quickstart-draft-wide: this needs at most 8" in flat(none)


def test_of_several_calibrations_the_first_that_was_fitted_here_is_taken() -> None:
    assert "  calibration: chen-2023 " in sps("init", *CASE).stdout
    assert "  calibration: tpu-v4-2022 " in sps("init", *CASE, "--batch", "4").stdout


def test_a_calibration_that_was_not_fitted_here_is_left_out_with_the_reason() -> None:
    out = sps("init", "--model", "chinchilla-7b", "--hardware", "tpu_v4", "--chips", "2").stdout
    assert "  # calibration: null " in out
    assert "Not chen-2023: outside what it was fitted on, chips 2 (fitted on 4 to 16)" in flat(out)


def hardware(folder: Path, **chips_known: list[int] | None) -> str:
    """A chip in a file; its calibrations know the numbers of chips that are given, or any."""
    data: Any = json.loads(json.dumps(PROFILE))
    (parameters,) = data["calibrations"].pop("made-up")["parameters"]
    about = {"description": "invented", "source": "invented", "free_parameters": 0, "fitted_values": 0}
    for name, known in chips_known.items():
        sets = [parameters] if known is None else [{**parameters, "chips": chips} for chips in known]
        data["calibrations"][name] = {**about, "parameters": sets}
    file = folder / "chip.yaml"
    file.write_text(json.dumps(data), encoding="utf-8")
    return str(file)


def test_a_calibration_that_does_not_know_so_many_chips_is_left_out(tmp_path: Path) -> None:
    words = ("init", "--model", "chinchilla-7b", "--chips", "4", "--hardware")
    none = sps(*words, hardware(tmp_path, small=[1, 2])).stdout
    assert "  # calibration: null " in none
    assert "Not small: this needs a calibration that knows 4 chips; 'small' knows 1, 2" in flat(none)
    second = sps(*words, hardware(tmp_path, small=[1, 2], every=None)).stdout
    assert "  calibration: every " in second
    first = sps(*words, hardware(tmp_path, four=[4], every=None)).stdout
    assert "  calibration: four " in first


def test_an_unknown_chip_is_told_the_nearest_all_others_and_how_to_describe_it() -> None:
    result = sps("init", "--model", "chinchilla-7b", "--hardware", "b100", "--chips", "4")
    assert result.exit_code == 2
    assert "did you mean" in result.stderr
    assert "'b200_sxm'" in result.stderr
    assert all(name in result.stderr for name in PROFILES)
    assert "sps init --hardware-template" in result.stderr


def test_a_template_needs_no_model_explains_every_key_and_loads_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "b100.yaml"
    result = sps("init", "--hardware-template", "--hardware", "b100", "--out", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == f"hardware profile: {file}"
    text = file.read_text("utf-8")
    assert max(map(len, (line for line in text.splitlines() if "#" in line))) <= 100 + len("# yaml-language-server")
    profile = HardwareProfile.model_validate(read(file).data)
    assert profile.name == "b100"
    for key in (*keys_of(HardwareProfile), *keys_of(Peaks), *keys_of(SwitchTopology)):
        assert re.search(rf"^ *(# )?{key}:", text, re.MULTILINE), key
    # Every source is marked as one to fill in, and a scenario takes the file as it is.
    assert text.count("FILL IN") == 5
    words = ("--model", "chinchilla-7b", "--chips", "4", "--hardware", str(file))
    assert sps("init", *words, "--out", str(tmp_path / "new.yaml")).exit_code == 0
    assert sps("init", "--hardware-template").stdout.count("FILL IN") == 5


def test_a_template_has_a_name_that_a_profile_may_have() -> None:
    result = sps("init", "--hardware-template", "--hardware", "two words")
    assert result.exit_code == 2
    assert "a name of letters" in result.stderr


def test_without_a_template_all_three_are_wanted() -> None:
    result = sps("init", "--model", "chinchilla-7b")
    assert result.exit_code == 2
    assert "missing --hardware, --chips" in result.stderr


def test_a_doubtful_figure_is_told_when_a_scenario_is_checked(tmp_path: Path) -> None:
    sparse = read(library.PROFILES / "h100_sxm.yaml").data
    sparse["peaks"]["matmul"]["fp8"]["value"] = "3958 TFLOP/s"
    file, out = tmp_path / "chip.yaml", tmp_path / "new.yaml"
    file.write_text(json.dumps(sparse), encoding="utf-8")
    words = ("--model", "chinchilla-7b", "--chips", "4", "--out", str(out))
    assert sps("init", *words, "--hardware", str(file)).exit_code == 0
    result = sps("check", str(out))
    assert result.exit_code == 0
    assert "doubtful, h100_sxm: fp8 is 4 times" in flat(result.stderr)
    assert sps("check", str(out), "--set", "deployment.hardware=h100_sxm").stderr == ""


def test_the_price_of_a_million_tokens_is_that_of_the_chips(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    assert sps("init", *CASE, "--out", str(file)).exit_code == 0
    listed = predict_scenario(load_scenario(file)[0].scenario).metrics
    plainly = 16 * 3.22 / 3600 * 1e6 * listed["plain_step_s"]
    assert listed["plain_million_tokens_usd"] == pytest.approx(plainly)
    assert listed["million_tokens_usd"] == pytest.approx(plainly / listed["speedup"])
    assert f"{plainly:,.0f} USD per million output tokens" in sps("predict", str(file)).stdout
    cheaper = load_scenario(file, ["deployment.price=1.61 USD/h"])[0].scenario
    assert predict_scenario(cheaper).metrics["million_tokens_usd"] == pytest.approx(listed["million_tokens_usd"] / 2)
    unpriced = load_scenario(file, ["deployment.hardware=tpu_v7x", "deployment.calibration=null"])[0].scenario
    assert "million_tokens_usd" not in predict_scenario(unpriced).metrics
