import torch

from medjudge.models.padding import pad_left, pad_right


def test_encoders_are_padded_behind_and_causal_models_before() -> None:
    right = pad_right([[5, 6, 7], [8]], pad_id=1)
    assert right.ids.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert right.mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    left = pad_left([[5, 6, 7], [8]], pad_id=1, device=torch.device("cpu"))
    assert left.ids.tolist() == [[5, 6, 7], [1, 1, 8]]
    assert left.mask.tolist() == [[1, 1, 1], [0, 0, 1]]
    assert {tensor.dtype for tensor in (*right, *left)} == {torch.long}


def test_a_sequence_of_padding_tokens_is_not_masked() -> None:
    """The mask follows from the lengths: a text may hold the padding token itself."""
    assert pad_right([[1, 1], [1]], pad_id=1).mask.tolist() == [[1, 1], [1, 0]]
    assert pad_left([[1, 1], [1]], pad_id=1, device=torch.device("cpu")).mask.tolist() == [[1, 1], [0, 1]]
