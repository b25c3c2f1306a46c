def test_reordered_lists_keep_their_lead_and_their_numbers() -> None:
    text = "Take:\n1. Aspirin 300 mg.\n   With water.\n2. Heparin.\n3. Oxygen.\n\nCall 112."
    for seed in range(10):
        lines = (change(text, "reordered", seed=seed) or "").split("\n")
        place = lines.index("Take:")
        assert re.match(r"\d\. ", lines[place + 1])
        assert lines[lines.index("1. Aspirin 300 mg.") + 1] == "   With water."
        assert Counter(lines) == Counter(text.split("\n"))
    # What "avoid" leads up to stays under it, though blank lines stand between.
    loose = "Give:\n\n- paracetamol\n\nAvoid:\n\n- ibuprofen\n\n- aspirin"
    for seed in range(10):
        moved = change(loose, "reordered", seed=seed)
        assert moved == "Give:\n\n- paracetamol\n\nAvoid:\n\n- aspirin\n\n- ibuprofen"
    assert change("- Avoid:\n- ibuprofen\n- aspirin", "reordered") is None
    assert change("1. **Avoid**\n\nIbuprofen.\n\n2. **Take**\n\nParacetamol.", "reordered") is None
    assert change("Steps in this order:\n- wash\n- inject", "reordered") is None


def test_reordered_sections_paragraphs_and_lines() -> None:
    sections = "Intro.\n\n## Avoid\nIbuprofen.\n\n## Take\nParacetamol."
    assert change(sections, "reordered") == "Intro.\n\n## Take\nParacetamol.\n\n## Avoid\nIbuprofen."
    paragraphs = "The cause is a clot.\n\nIt needs heparin.\n\nBleeding is rare."
    assert change(paragraphs, "reordered") == "Bleeding is rare.\n\nThe cause is a clot.\n\nIt needs heparin."
    headed = "**Avoid**\nIbuprofen.\n\n**Take**\nParacetamol."
    assert change(headed, "reordered") == "**Take**\nParacetamol.\n\n**Avoid**\nIbuprofen."
    assert change("A: urgent.\nB: routine.", "reordered") == "B: routine.\nA: urgent."
    assert change("First wash.\n\nThen inject.", "reordered") is None
    assert change("A line that is\nwrapped at the edge. The\nsentence goes on.", "reordered") is None
    assert change("```\na\n\nb\n```", "reordered") is None


def test_sentences_move_behind_the_first_and_only_where_none_leans_on_another() -> None:
    text = "Gout is common. Colchicine 0.5 mg helps, e.g. twice a day. It causes diarrhoea. Ice is fine."
    moved = "Gout is common. Ice is fine. Colchicine 0.5 mg helps, e.g. twice a day. It causes diarrhoea."
    assert change(text, "reordered") == moved
    assert change("Gout is common. Ice helps. Then give colchicine.", "reordered") is None
    assert change("Gout is common. Ice helps. Rest helps", "reordered") is None
    assert change("Gout is common. (Ice helps. Rest helps.) Drink.", "reordered") is None
    chinese = "痛风很常见。秋水仙碱0.5 mg有效！冷敷“可用”。多饮水。"
    seen = {change(chinese, "reordered", "zh", seed) for seed in range(20)}
    assert len(seen) == 5
    assert all(one is not None and one.startswith("痛风很常见。") and pieces(one) == pieces(chinese) for one in seen)
    assert change("痛风很常见。冷敷有效。它也安全。", "reordered", "zh") is None
    assert change("痛风很常见。首先冷敷。然后服药。", "reordered", "zh") is None
