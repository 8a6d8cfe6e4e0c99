"""BioNetGen: .net files, and .bngl files that BioNetGen expands in a limited process.

Only lines of an allow-list reach BioNetGen (`lines`).
"""
