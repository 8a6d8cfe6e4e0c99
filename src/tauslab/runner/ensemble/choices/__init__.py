"""Choices by pilots before an ensemble runs: method, selector, ODE solver; and its outlook.

Pilots have random streams of their own.
"""
