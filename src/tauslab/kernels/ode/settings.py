"""Settings of the integration of equations, before any of it is made."""

from __future__ import annotations

from dataclasses import dataclass

from tauslab.base.errors import ConfigError, one_of
from tauslab.base.option_names import assigned, opt

SOLVERS = ("auto", "rk4", "dopri5", "rosenbrock")
PRECISIONS = {"double": "double", "single": "float"}  # and the C++ type of each
DEFAULT_SUBSTEPS = 10
MOST_SUBSTEPS = 2**40
DELAY_HISTORY = 4096  # steps that are kept of a trajectory whose equations look back
MOST_HISTORY = 2**24


@dataclass(frozen=True)
class OdeSettings:
    """Settings of the integration of equations.

    Parameters
    ----------
    solver
        ``rk4``: fixed steps; ``dopri5``: steps that adapt; ``rosenbrock``: the same for stiff
        equations; ``auto``: one of the last two, to be chosen before kernels are made.
    substeps
        Of ``rk4``: steps between one sample or event and the next.
    rtol, atol
        Of the others: bounds on the error of a step, relative to a variable and absolute (in the
        unit of amounts).
    precision
        ``double`` or ``single``.
    delay_history
        Steps of a trajectory that are kept for equations that look back.

    Raises
    ------
    ConfigError
        A choice that is not known, or a number outside what is allowed.
    """

    solver: str = "rk4"
    substeps: int = DEFAULT_SUBSTEPS
    rtol: float = 1e-6
    atol: float = 1e-9
    precision: str = "double"
    delay_history: int = DELAY_HISTORY

    def __post_init__(self) -> None:
        """Check the choices."""
        for option, value, allowed in (
            ("solver", self.solver, SOLVERS),
            ("precision", self.precision, tuple(PRECISIONS)),
        ):
            one_of(option, value, allowed)
        if not 2 <= self.delay_history <= MOST_HISTORY:
            raise ConfigError(
                f"{opt('delay_history', self.delay_history)} is not allowed: a whole number from 2 "
                f"to {MOST_HISTORY}"
            )
        if not 1 <= self.substeps <= MOST_SUBSTEPS:
            raise ConfigError(
                f"{opt('substeps', self.substeps)} is not allowed: a whole number from 1 to "
                f"{MOST_SUBSTEPS}"
            )
        for option, number in (("rtol", self.rtol), ("atol", self.atol)):
            if not 0 < number < 1e300:
                shown = f"{number:g}" if isinstance(number, float) else str(number)[:80]
                raise ConfigError(
                    f"{assigned(option)}{shown} is not allowed: a finite number above 0"
                )
