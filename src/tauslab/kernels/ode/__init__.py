"""Ordinary differential equations: RK4, Dormand-Prince 5(4), Rosenbrock; threads or warps.

`engine` is the entry; its kernels are in csrc/ode.
"""
