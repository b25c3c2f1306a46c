"""What two distributions over the five levels say about a pair: P(A > B), as if the levels were drawn independently."""

import numpy as np


def pair_probabilities(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The probabilities that the first level is higher, that both are equal, and that the second is higher.

    Args:
        first: Probabilities of the levels, lowest first, shape (..., levels).
        second: The same of the other answer, shape (..., levels).

    Returns:
        Shape (..., 3); they add up to 1.
    """
    joint = np.asarray(first)[..., :, None] * np.asarray(second)[..., None, :]
    higher = np.tril(joint, -1).sum(axis=(-2, -1))
    equal = np.trace(joint, axis1=-2, axis2=-1)
    lower = np.triu(joint, 1).sum(axis=(-2, -1))
    return np.stack([higher, equal, lower], axis=-1)


def likeliest(probabilities: np.ndarray) -> np.ndarray:
    """The verdict of (first, tie, second) probabilities, (..., 3) -> (...): 1, 0 or -1; a tie unless one is likelier.

    An equality of the first's and the second's probability is a tie, whatever the probability of a tie is.
    """
    first, tie, second = np.moveaxis(np.asarray(probabilities), -1, 0)
    decided = np.maximum(first, second) > np.maximum(tie, np.minimum(first, second)) + 1e-9
    return np.where(decided, np.sign(first - second), 0).astype(int)
