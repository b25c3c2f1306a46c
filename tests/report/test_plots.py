import copy
import json
import re
import shutil
from xml.etree import ElementTree

import matplotlib
import pytest
from example_study import example_study
from rich.cells import cell_len

from medjudge.files import write_json
from medjudge.judge.study_summary import Measures
from medjudge.report import drawing, plots
from medjudge.report.words import Words
from medjudge.statistics.estimates import Estimate
from medjudge.store import Run
from medjudge.validation.confidence import Confidence
from medjudge.validation.physicians import PhysicianAgreement
from medjudge.validation.records import Study

ENGLISH = Words()


def share(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high)


def part(n: int, *agreement: float | None) -> Measures:
    return {"n": share(n), "usable_agreement": share(*agreement)}


@pytest.fixture
def study() -> Study:
    """A study with all that the plots need."""
    among = dict.fromkeys(("cohen_kappa", "quadratic_kappa", "krippendorff_alpha"), share(None))
    return example_study(
        overall=part(8, 0.875, 0.5, 0.96),
        by_category={"MTG": part(5, 0.8, 0.4, 0.95), "MK": part(3, 1.0, 0.44, 1.0)},
        physicians=PhysicianAgreement(answers=8, usable_agreement=share(0.9, 0.8, 0.95), **among, alt_test={}),
        confidence=Confidence(
            n=8,
            brier=share(0.1),
            ece=0.1,
            curve=[
                {"from": 0.1, "to": 0.3, "n": 6, "predicted": 0.2, "observed": 0.0, "low": 0.0, "high": 0.4},
                {"from": 0.9, "to": 0.9, "n": 2, "predicted": 0.8, "observed": 1.0, "low": 0.3, "high": 1.0},
            ],
        ),
    )


def texts(plot: drawing.Plot | None) -> list[str]:
    assert plot is not None
    svg = drawing.as_svg(plot.figure)
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_titles_say_what_is_seen(study) -> None:
    agreement, calibration = (" ".join(texts(plot)) for plot in plots.plots(study, ENGLISH))
    for expected in (
        "On usable the judge agrees with physicians on 87.5 %, least in MTG (80.0 %)",
        "87.5 % (50–96)",
        "MTG, n = 5",
        "GPT-4o in the paper",
        "physicians among each other",
    ):
        assert expected in agreement
    assert "The judge expects 35 % usable, and 25 % are; calibration error 10.0 points" in calibration
    assert "each point is 2 to 6 answers" in calibration


def test_a_plot_without_data_is_left_out_and_values_need_no_interval(study) -> None:
    bare = study.model_copy(update={"confidence": None, "physicians": None, "by_category": {}, "overall": part(8, 1.0)})
    (agreement,) = plots.plots(bare, ENGLISH)
    drawn = texts(agreement)
    assert {"100.0 %", "On usable the judge agrees with physicians on 100.0 %"} <= set(drawn)
    assert "physicians among each other" not in drawn
    undefined = bare.model_copy(update={"overall": part(8, None), "by_category": {"MK": part(8, None)}})
    assert plots.plots(undefined, ENGLISH) == []


@pytest.mark.slow
def test_the_same_study_gives_the_same_bytes_whatever_the_user_set(study) -> None:
    def all_bytes() -> list[str]:
        return [drawing.as_svg(plot.figure) for plot in plots.plots(copy.deepcopy(study), ENGLISH)]

    first = all_bytes()
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "text.usetex": True, "figure.dpi": 300}):
        assert all_bytes() == first
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", r"$\frac$ and \$5", "</text><image/>", "a\x00b\nc \U0001f600"]
)
def test_names_are_text_whatever_stands_in_them(study, name) -> None:
    (agreement, calibration) = plots.plots(study.model_copy(update={"against": name}), ENGLISH)
    for plot in (agreement, calibration):
        svg = ElementTree.fromstring(drawing.as_svg(plot.figure))
        tags = {element.tag.rpartition("}")[2] for element in svg.iter()}
        assert tags <= {"svg", "defs", "style", "g", "path", "use", "clipPath", "rect", "text", "tspan"}
    shown = " ".join(name.replace("\x00", " ").split())[:20]
    assert shown in " ".join(texts(calibration))


def test_chinese_plots_say_everything_in_chinese(study) -> None:
    words = Words("zh")
    for plot in plots.plots(study, words):
        shown = re.sub("GPT-4o|physicians", "", f"{' '.join(texts(plot))} {plot.alt}")
        assert re.search("[\u4e00-\u9fff]", shown)
        assert re.findall("[a-z]{3,}", shown) == []
    agreement = "".join(texts(plots.agreement_plot(study, words))).replace(" ", "")  # a line may end at a space
    assert "就是否可用，评审模型与医生的一致率为87.5%，其中MTG最低（80.0%）" in agreement


def test_lines_of_wide_characters_end_within_the_width() -> None:
    text = "在最有把握的49 %回答上，评审模型判错0.0 %；在全部回答上判错12.5 %，其余由医生判定。"
    lines = drawing.wrapped(text, 40).split("\n")
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(line) <= 42 for line in lines)  # a stop may hang over
    assert not [line for line in lines if line[0] in "，。；"]
    assert drawing.wrapped("one two three", 8) == "one two\nthree"


@pytest.mark.slow
def test_every_plot_becomes_an_svg_of_its_own_name(validated, tmp_path) -> None:
    other = Run(shutil.copytree(validated, tmp_path / "other"))
    study = json.loads(other.agreement_file("mine").read_text(encoding="utf-8"))
    against = {"against": "../gpt", "against_kind": "judge"}
    write_json(other.agreement_file("mine", against="gpt"), study | against)
    files = plots.write_plots(tmp_path / "plots", [Run(validated), other])
    names = {f"mine{whose}-{plot}" for whose in ("", "-against-..-gpt") for plot in ("agreement", "calibration")}
    names |= {"gpt-rates", "mine-rates", "mine-agreement-2", "mine-calibration-2"}
    assert {file.name for file in (tmp_path / "plots").iterdir()} == {f"{name}.svg" for name in names}
    assert sorted(files) == sorted((tmp_path / "plots").iterdir())
    for file in files:
        ElementTree.parse(file)
    rates = "".join(ElementTree.parse(tmp_path / "plots" / "mine-rates.svg").getroot().itertext())
    assert "By judge mine (inconclusive), " in " ".join(rates.split())
