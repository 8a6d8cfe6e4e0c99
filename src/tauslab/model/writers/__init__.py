"""Models in the formats of other programs: SBML, and Antimony made of it.

`sbml` writes a network, `mathml` its formulas, `antimony` passes both ways through that package.
"""
