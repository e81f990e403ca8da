"""A search for inputs that are not answered: `python -m tests.fuzz --seconds N`."""
