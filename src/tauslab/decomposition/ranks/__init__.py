"""Collective actions of ranks: MPI, agreement on errors, progress, stopping.

The communicator of all ranks is in `mpi` alone; `job` has the steps of every job.
"""
