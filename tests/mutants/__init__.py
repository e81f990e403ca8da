"""Mutation tests: every small change of a formula must make a test fail. `python -m tests.mutants --module NAME`."""
