"""The simulator broken on purpose: does every experiment notice? ``python -m tests.broken``."""
