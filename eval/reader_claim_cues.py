"""What the wording alone tells of the verdict on a claim: the words that it shares with its passage, or it by itself.

    python eval/reader_claim_cues.py DATA

prints how many claims made by rule there are of each kind, what these two cues tell of their labels, and examples.
DATA holds medquad/, huatuo-knowledge/ and toyhom-internal/.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
from reader_claims import CHINESE_CLAIMS, ENGLISH_CLAIMS, SUPPORTED, Claim, claims, overlap, split, tokens
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score


def overlap_auc(made: Sequence[Claim]) -> float:
    """How well the overlap tells supported claims from the others."""
    return float(roc_auc_score([claim.label == SUPPORTED for claim in made], [overlap(claim) for claim in made]))


def claim_only_auc(made: Sequence[Claim]) -> float:
    """How well a logistic regression on the tokens of claims alone tells their labels, on held-out topics; macro."""
    sides = split(made)
    train, test = sides.train[:20000], sides.held_out[:10000]
    words = CountVectorizer(analyzer=lambda claim: tokens(claim.claim, claim.language), binary=True, min_df=3)
    model = LogisticRegression(C=0.1, max_iter=200)
    model.fit(words.fit_transform(train), [claim.label for claim in train])
    labels = np.array([claim.label for claim in test])
    return float(roc_auc_score(labels, model.predict_proba(words.transform(test)), multi_class="ovr"))


def main(data: Path) -> None:
    """Prints the counts, the two checks and three examples of each kind."""
    made = claims(data, ENGLISH_CLAIMS, CHINESE_CLAIMS, seed=0)
    sides = split(made)
    print(f"{len(made):,} claims: {len(sides.train):,} for training, {len(sides.held_out):,} held out")
    for language in ("en", "zh"):
        of = [claim for claim in made if claim.language == language]
        print(f"{language}: claim alone, AUC {claim_only_auc(of):.3f}; token overlap, AUC {overlap_auc(of):.3f}")
        held = Counter(claim.kind for claim in sides.held_out if claim.language == language)
        for kind, count in Counter(claim.kind for claim in of).most_common():
            examples = [claim for claim in of if claim.kind == kind]
            shares = np.mean([overlap(claim) for claim in examples])
            print(f"\n{language} {kind}: {count:,} claims, {held[kind]:,} held out, mean overlap {shares:.2f}")
            for claim in Random(kind).sample(examples, min(3, count)):
                print(f"  passage: {claim.passage}\n  claim:   {claim.claim}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
