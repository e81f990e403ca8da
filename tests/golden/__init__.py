"""Golden records: small runs whose every bit is kept in the repository. `python -m tests.golden` makes them anew."""
