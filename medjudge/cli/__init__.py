"""The command line: one module a command; each reads its options, calls the stations and prints."""
