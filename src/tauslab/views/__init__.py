"""Views of models and results: figures, movies, scenes in three dimensions.

matplotlib and plotly are imported where they are used.
"""
