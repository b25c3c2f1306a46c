"""Scripts behind the numbers in the README and the documentation; README.md lists them."""
