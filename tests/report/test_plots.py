import copy
import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import matplotlib
import pytest
from example_study import example_study

from medjudge.judge.study_summary import Measures
from medjudge.report import drawing, plots
from medjudge.report.words import Words
from medjudge.statistics.estimates import Estimate
from medjudge.validation.confidence import Confidence
from medjudge.validation.physicians import PhysicianAgreement
from medjudge.validation.ranking import ModelRates, Ranking
from medjudge.validation.records import Study


def share(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high)


def part(n: int, agreement: float | None, low: float | None = None, high: float | None = None) -> Measures:
    return {"n": share(n), "usable_agreement": share(agreement, low, high)}


def ranking(models: dict[str, ModelRates], pairwise_accuracy: Estimate) -> Ranking:
    return Ranking(models=models, spearman=share(None), kendall_tau_b=share(None), pairwise_accuracy=pairwise_accuracy)


@pytest.fixture
def study() -> Study:
    """What the plots need of a study: 8 answers, the same level on 6, one called usable by the judge only."""
    models = {f"model {number}": ModelRates(n=8, physicians=0.5, judge=0.5, teacher=0.4) for number in range(13)}
    return example_study(
        overall=part(8, 0.875, 0.5, 0.96),
        by_category={"MTG": part(5, 0.8, 0.4, 0.95), "MK": part(3, 1.0, 0.44, 1.0)},
        physicians=PhysicianAgreement(
            answers=8,
            usable_agreement=share(0.9, 0.8, 0.95),
            cohen_kappa=share(None),
            quadratic_kappa=share(None),
            krippendorff_alpha=share(None),
            alt_test={},
        ),
        confusion=[[2, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 2, 0], [0, 0, 0, 0, 1]],
        confusion_usable=[[4, 0], [1, 3]],
        ranking=ranking(models, share(0.75, 0.5, 1.0)),
        confidence=Confidence(
            n=8,
            brier=share(0.1),
            ece=0.1,
            curve=[
                {"from": 0.1, "to": 0.3, "n": 6, "predicted": 0.2, "observed": 0.0, "low": 0.0, "high": 0.4},
                {"from": 0.9, "to": 0.9, "n": 2, "predicted": 0.8, "observed": 1.0, "low": 0.3, "high": 1.0},
            ],
            risk_coverage=[{"coverage": at, "risk": risk} for at, risk in ((0.25, 0.0), (0.5, 0.0), (1.0, 0.125))],
            area_under_risk_coverage=0.05,
        ),
    )


def texts(plot: drawing.Plot | None) -> list[str]:
    assert plot is not None
    svg = drawing.as_svg(plot.figure)
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def shown_text(plot: drawing.Plot | None) -> str:
    return " ".join(texts(plot))


def test_titles_say_what_is_seen_and_rows_what_is_drawn(study) -> None:
    drawn = {plot.name: plot for plot in plots.plots(study)}
    for name, *expected in (
        ("agreement", "On usable the judge agrees with physicians on 87.5 %, least in MTG (80.0 %)"),
        ("agreement", "87.5 % (50 to 96)", "MTG, n = 5", "physicians among each other"),
        ("confusion", "Same level on 6 of 8 answers; 1 called usable only by the judge, 0 only by physicians"),
        ("calibration", "The judge expects 35 % usable, and 25 % are; calibration error 10.0 points"),
        ("calibration", "each point is 2 to 6 answers"),
        ("risk-coverage", "On the surest 50 % of the answers the judge errs on 0.0 %, on all of them on 12.5 %"),
        ("ranking", "the judge orders 75 % alike"),
    ):
        assert all(text in shown_text(drawn[name]) for text in expected), name
    rows = {name: plot.rows for name, plot in drawn.items()}
    assert rows["agreement"][:3] == [
        ["Part", "n", "Usable agreement, %", "low", "high", "GPT-4o in the paper"],
        ["Overall", 8, 87.5, 50.0, 96.0, None],
        ["MTG", 5, 80.0, 40.0, 95.0, study.scheme.reference_percent["MTG"]],
    ]
    assert rows["confusion"][4] == [4, 0, 0, 1, 2, 0]
    assert rows["calibration"][1] == [20.0, 0.0, 0.0, 40.0, 6]
    assert rows["risk-coverage"][1:] == [[25.0, 0.0], [50.0, 0.0], [100.0, 12.5]]
    assert rows["ranking"][1] == ["model 0", 8, 50.0, 50.0, 40.0]


def test_a_plot_without_data_is_left_out(study) -> None:
    assert len(plots.plots(study)) == 5
    nothing = {"confidence": None, "ranking": None, "physicians": None, "confusion": [[0] * 5] * 5}
    bare = study.model_copy(update=nothing)
    (agreement,) = plots.plots(bare)
    assert agreement.alt.startswith("On usable")
    assert "physicians among each other" not in shown_text(agreement)
    undefined = bare.model_copy(update={"overall": part(8, None), "by_category": {"MK": part(8, None)}})
    assert plots.plots(undefined) == []
    equally_sure = {"risk_coverage": [{"coverage": 1.0, "risk": 0.1}], "curve": []}
    same = study.model_copy(update={"confidence": study.confidence.model_copy(update=equally_sure)})
    assert [plot.name for plot in plots.plots(same)] == ["agreement", "confusion", "ranking"]


def test_values_without_an_interval_and_orders_without_a_pair_are_drawn(study) -> None:
    study = study.model_copy(update={"overall": part(8, 1.0), "by_category": {"MK": part(8, 1.0)}})
    drawn = texts(plots.agreement_plot(study))
    assert {"100.0 %", "On usable the judge agrees with physicians on 100.0 %"} <= set(drawn)
    models = {name: rates.model_copy(update={"teacher": None}) for name, rates in study.ranking.models.items()}
    for number, expected in (13, "No two models are told apart by physicians"), (2, "neither (equal rates) is first"):
        some = ranking(dict(list(models.items())[:number]), share(None))
        shown = shown_text(plots.ranking_plot(study.model_copy(update={"ranking": some})))
        assert expected in shown
        assert "its teacher" not in shown


@pytest.mark.slow
def test_the_same_study_gives_the_same_bytes_whatever_the_user_set(study) -> None:
    def all_bytes() -> list[Any]:
        drawn = plots.plots(copy.deepcopy(study))
        return [(drawing.as_svg(plot.figure), drawing.as_png(plot.figure)) for plot in drawn]

    first = all_bytes()
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "text.usetex": True, "figure.dpi": 300}):
        assert all_bytes() == first
        assert matplotlib.rcParams["font.size"] == 30


def test_names_are_text_whatever_stands_in_them(study) -> None:
    names = ["<script>alert(1)</script>", r"$\frac$ and \$5", "</text><image/>", "一二三", "a\x00b\nc \U0001f600"]
    models = {name: ModelRates(n=8, physicians=0.1 * k, judge=0.5, teacher=None) for k, name in enumerate(names)}
    evil = {"against": '"><script>x</script>', "ranking": ranking(models, share(0.75, 0.5, 1.0))}
    study = study.model_copy(update=evil)
    for plot in plots.plots(study):
        svg = ElementTree.fromstring(drawing.as_svg(plot.figure))
        tags = {element.tag.rpartition("}")[2] for element in svg.iter()}
        assert tags <= {"svg", "defs", "style", "g", "path", "use", "clipPath", "rect", "text", "tspan"}
    drawn = texts(plots.ranking_plot(study))
    assert {"<script>alert(1)</script>", r"$\frac$ and \$5", "</text><image/>", "一二三", "a b c 😀"} <= set(drawn)


def test_thirteen_models_of_the_same_rates_stay_readable(study) -> None:
    svg = drawing.as_svg(plots.ranking_plot(study).figure)
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>model \d+<', svg))
    assert len(heights) == 13
    assert min(after - before for before, after in pairwise(heights)) > 10  # points; the font has 8.5


def test_chinese_plots_say_everything_in_chinese(study) -> None:
    words = Words("zh")
    for plot in plots.plots(study, words):
        shown = re.sub("GPT-4o|physicians|model \\d+", "", f"{shown_text(plot)} {plot.alt} {plot.rows[0]}")
        assert re.search("[\u4e00-\u9fff]", shown)
        assert re.findall("[a-z]{3,}", shown) == []
    agreement = "".join(texts(plots.agreement_plot(study, words))).replace(" ", "")  # a line may end at a space
    assert "就是否可用，评审模型与医生的一致率为87.5%，其中MTG最低（80.0%）" in agreement


def test_lines_of_wide_characters_end_within_the_width() -> None:
    text = "在最有把握的49 %回答上，评审模型判错0.0 %；在全部回答上判错12.5 %，其余由医生判定。"
    lines = drawing.wrapped(text, 40).split("\n")
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(drawing.columns(line) <= 42 for line in lines)  # a stop may hang over
    assert not [line for line in lines if line[0] in "，。；"]
    assert drawing.wrapped("one two three", 8) == "one two\nthree"


def test_without_a_font_for_it_a_plot_with_chinese_has_no_png(study, monkeypatch) -> None:
    monkeypatch.setattr(drawing, "_wide_fonts", tuple)
    assert drawing.as_png(plots.agreement_plot(study, Words("zh")).figure) is None
    assert drawing.as_png(plots.agreement_plot(study).figure).startswith(b"\x89PNG")
