"""Populations of cells that grow and divide.

`growth` moves cells to their next division and divides them, on top of the motion of particles;
`division` reads how a model divides; `result` holds snapshots, divisions and generations.
"""
