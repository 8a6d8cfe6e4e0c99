"""Writers of ensemble results: one file, parts and join, mpio, memory; checkpoints and resume.

`writer` has the interface and the choice.
"""
