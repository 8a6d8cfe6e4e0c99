"""Halo exchange between slabs: how deep, which messages, over which links.

Links are peer copies (`peer`), host memory that ranks share (`shared`), or MPI (`mpi`); `links`
chooses. Memory: `SlabEngine.close` calls `Halo.close`, which frees buffers and links on every rank.
After a failure nobody calls it: all ranks are ended together
(`tauslab.decomposition.ranks.together`), and the system takes their memory back.
"""
