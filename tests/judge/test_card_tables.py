"""Tables of a judge's card."""

from medjudge.judge.card import write_readme
from medjudge.judge.folder import JudgeCard


def test_cross_validation_is_a_table_of_the_card(tmp_path) -> None:
    rows = [
        {"fold": fold, "seed": seed, "usable_agreement": 0.7 + fold / 10, "spearman": 0.5}
        for fold in (1, 2)
        for seed in (0, 1)
    ]
    card = JudgeCard(kind="ordinal", base_model="m", max_length=64, training={"cross_validation": rows})
    write_readme(tmp_path, card)
    text = (tmp_path / "README.md").read_text()
    assert "| fold | seed | usable agreement | spearman |\n|---|---|---|---|\n| 1 | 0 | 0.800 | 0.500 |" in text
    assert "| mean | | 0.850 | 0.500 |\n| standard deviation | | 0.058 | 0.000 |" in text
    with_interval = {"value": 0.75, "low": 0.7, "high": 0.8}
    card.training["cross_validation"] = [{"fold": fold, "seed": 0, "spearman": with_interval} for fold in (0, 1)]
    write_readme(tmp_path, card)
    text = (tmp_path / "README.md").read_text()
    assert "| 0 | 0 | 0.75 (0.70 to 0.80) |" in text
    assert "| mean | | 0.750 |" in text
