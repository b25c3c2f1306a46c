"""Statistics of agreement: pure functions, arrays in and arrays out."""
