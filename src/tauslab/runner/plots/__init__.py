"""Pictures of results with matplotlib, which is imported here alone.

One module a kind of result.
"""
