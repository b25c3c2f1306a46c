import json
import shutil
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from medjudge.files import write_json
from medjudge.report import drawing, plots
from medjudge.report.plots import write_plots
from medjudge.store import Run

STUDY = ("agreement", "confusion", "calibration", "risk-coverage", "ranking")


@pytest.mark.slow
def test_every_plot_of_the_report_becomes_an_svg_and_a_png(validated, tmp_path) -> None:
    files = write_plots(tmp_path / "plots", [Run(validated)])
    names = [f"{judge}-{plot}" for judge in ("gpt", "mine") for plot in ("rates", "subcategories")]
    names += [f"mine-{plot}" for plot in STUDY]
    chinese = () if drawing._wide_fonts() else ("gpt-subcategories.png", "mine-subcategories.png")
    expected = {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert {file.name for file in files} == expected.difference(chinese)
    for file in files:
        if file.suffix == ".png":
            height, width, _ = imread(file).shape
            assert min(height, width) > 400
        else:
            ElementTree.parse(file)
    texts = "".join(ElementTree.parse(tmp_path / "plots" / "mine-rates.svg").getroot().itertext())
    assert "By judge mine (inconclusive), model-a has the highest usability rate, 71.4 %" in " ".join(texts.split())
    assert "药物" in (tmp_path / "plots" / "mine-subcategories.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_plots_of_the_same_name_do_not_replace_each_other(validated, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(plots, "as_svg", lambda figure: "<svg/>")
    monkeypatch.setattr(plots, "as_png", lambda figure: None)
    other = Run(shutil.copytree(validated, tmp_path / "other"))
    study = json.loads(other.agreement_file("mine").read_text(encoding="utf-8"))
    against = {"against": "../gpt", "against_kind": "judge"}
    write_json(other.agreement_file("mine", against="gpt"), study | against)
    names = {file.stem for file in write_plots(tmp_path / "plots", [Run(validated), other])}
    assert {"mine-agreement", "mine-agreement-2", "mine-against-..-gpt-agreement"} <= names
    assert names == {file.stem for file in (tmp_path / "plots").iterdir()}
