"""Theory: exact solutions, the theorems' hypotheses, predicted limit sets, and honest verdicts.

| module | what |
| --- | --- |
| closed_forms | exact solutions, scalar equations and rates |
| hypotheses | does a triple (Q, K, V) satisfy what a theorem asks, and by how much |
| limits | the sets tokens are predicted to approach, with distances |
| verdicts | holds, fails or undecided, with a confidence interval |
| check | all of it for one triple and one cloud of tokens |
"""
