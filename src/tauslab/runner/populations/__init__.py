"""Populations of cells that grow and divide.

`population` is the function of users; `growth` moves cells to their next division and divides them, on top of the particles' motion;
`division` reads how a model divides; `result` holds snapshots, divisions and generations.
"""
