"""Theory: exact solutions, the theorems' hypotheses, predicted limit sets, and honest verdicts.

| module | what |
| --- | --- |
| closed_forms | exact solutions, scalar equations and rates |
| hypotheses | does a triple (Q, K, V) satisfy what a theorem requires, and by how much |
| spectrum, leading | eigenvalues and invariant subspaces with error bars, on which the hypotheses rest |
| limits | the sets tokens are predicted to approach, with distances |
| theorems | the claims as a table: hypotheses, limit, rate, measurement |
| settle | the run that decides a claim, and its criterion |
| intervals, verdicts | holds, fails, undecided, trivial only or not measured, with a confidence interval |
| check, report | all of it for one triple and one cloud of tokens |
"""

from metastable.theory import closed_forms, hypotheses, limits, verdicts

__all__ = ["closed_forms", "hypotheses", "limits", "verdicts"]
