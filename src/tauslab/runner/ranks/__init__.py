"""What ranks do together: MPI, agreement on errors, progress, stopping.

`COMM_WORLD` is in `mpi` alone.
"""
