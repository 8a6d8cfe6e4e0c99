"""How models and results look: style and panels of figures, HTML for notebooks.

matplotlib and plotly are imported where they are used.
"""
