"""How often 95 % intervals contain the truth, in 1,000 simulated studies of each design.

    python eval/interval_coverage.py

Agreement, Cohen's kappa, AC1 and quadratic kappa with both kinds of bootstrap interval, and prediction-powered
usability rates. The result is eval/results/interval-coverage.json.
"""

import time

from simulated_studies import agreement_coverage, ppi_coverage
from study import record


def main() -> None:
    """Simulates and writes the result."""
    start = time.monotonic()
    results = {
        "command": "python eval/interval_coverage.py",
        "agreement": agreement_coverage(methods=("bca", "percentile")),
        "prediction_powered": ppi_coverage(),
    }
    record("interval-coverage", {**results, "seconds": round(time.monotonic() - start)})


if __name__ == "__main__":
    main()
