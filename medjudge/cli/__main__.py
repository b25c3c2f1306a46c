"""`python -m medjudge.cli`."""

from medjudge.cli.main import main

main()
