"""The density of infinitely many tokens: the mean-field equation on the circle and on S^2."""
