"""How models and results look: figures, movies, scenes in three dimensions.

matplotlib and plotly are imported where they are used.
"""
