"""Fit a promoter's rates to mean and noise of its mRNA by stochastic gradients.

    python examples/fit_promoter.py

Data: mean and Fano factor of mRNA for lacUV5 under 17 amounts of repressor, Jones, Brewster and
Phillips, Science 346, 1533 (2014), as read off by Rijal and Mehta, eLife 14, RP103877 (2025, CC BY
4.0), who call it lacUD5 and fitted it with their differentiable Gillespie algorithm. A repressor
binds at the rate k_on, which differs from row to row, and leaves at the rate 1; the free promoter
makes mRNA at the rate r, and it decays at the rate gamma. In the steady state the mean is
r / gamma / (1 + k_on), so that r / gamma and the measured mean give k_on; what `fit` finds are r / gamma
and gamma. `fit_all` finds the 17 k_on too, as they do. The loss is theirs: squared errors of means and of standard deviations. Trajectories
are exact here, and the loss has a closed form, which tells how near the fit has come.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import tauslab as ts

FloatArray = npt.NDArray[np.float64]

MEAN = np.array([
    0.0427095934934, 0.0519512893185, 0.0725633399736, 0.0924282727744, 0.254783799522,
    0.284257168824, 0.42545867295, 0.474675697793, 1.27866161999, 1.51991108295, 5.21512097253,
    7.1183113663, 7.80567279068, 8.9116536338, 9.33200535104, 9.82864716541, 10.0,
])  # fmt: skip
FANO = np.array([
    1.20363636364, 0.872727272727, 1.38181818182, 1.24818181818, 3.08090909091, 3.66636363636,
    5.00909090909, 5.14909090909, 7.33818181818, 7.52272727273, 6.86727272727, 6.73363636364,
    3.99090909091, 3.59, 4.51272727273, 4.56363636364, 5.97,
])  # fmt: skip
DEVIATION = np.sqrt(MEAN * FANO)
LEAST = (10.3, 0.5)  # r / gamma above the largest mean, also a step below


def promoter(*, own_k_on: bool = False) -> ts.Network:
    """A promoter that a repressor blocks, and its mRNA; k_on follows from the mean, or is given."""
    net = ts.Network("promoter")
    net.add_species("Free", 1)
    net.add_species("Bound")
    net.add_species("M")
    net.add_parameter("capacity", 20.0)  # r / gamma
    net.add_parameter("gamma", 4.0)
    net.add_parameter("mean", 1.0)
    if own_k_on:
        net.add_parameter("k_row", 1.0)
        net.add_parameter("scale", 1.0)
    net.add_parameter("k_on", "k_row * scale" if own_k_on else "capacity / mean - 1")
    net.add_reaction("Free -> Bound", rate="k_on")
    net.add_reaction("Bound -> Free", rate=1.0)
    net.add_reaction("Free -> Free + M", rate="capacity * gamma")
    net.add_reaction("M ->", rate="gamma")
    return net


def loss_and_gradient(mean: FloatArray, jacobian: FloatArray) -> tuple[float, FloatArray]:
    """Squared errors of means and deviations, from means of M and M * M and their derivatives."""
    losses, gradients = losses_and_gradients(mean, jacobian)
    return float(losses.sum()), np.asarray(gradients.sum(axis=0))


def losses_and_gradients(mean: FloatArray, jacobian: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same of each row: ``[row]`` and ``[row, parameter]``."""
    first, second = mean[:, 0, 0], mean[:, 0, 1]
    by_first, by_second = jacobian[:, 0, 0], jacobian[:, 0, 1]
    deviation = np.sqrt(np.maximum(second - first**2, 1e-12))
    of_mean, of_deviation = first - MEAN, deviation - DEVIATION
    by_deviation = (by_second - 2 * first[:, None] * by_first) / (2 * deviation[:, None])
    gradients = 2 * (of_mean[:, None] * by_first + of_deviation[:, None] * by_deviation)
    return of_mean**2 + of_deviation**2, gradients


def exact_loss(capacity: float, gamma: float, k_on: FloatArray | None = None) -> float:
    """The loss of the steady state (Peccoud and Ycart 1995); k_on of the means by default."""
    k_on = capacity / MEAN - 1 if k_on is None else k_on
    mean = capacity / (1 + k_on)
    fano = 1 + capacity * gamma * k_on / ((1 + k_on) * (1 + k_on + gamma))
    return float(((mean - MEAN) ** 2 + (np.sqrt(mean * fano) - DEVIATION) ** 2).sum())


class Adam:
    """Steps against gradients (Kingma and Ba 2015), whose length falls to 0."""

    def __init__(self, place: FloatArray, steps: int) -> None:
        self.place, self._steps, self._k = place, steps, 0
        self._slope, self._square = np.zeros(len(place)), np.zeros(len(place))

    def step(self, gradient: FloatArray) -> None:
        """One step."""
        self._k += 1
        k, rate = self._k, 0.1 * (1 - self._k / (self._steps + 1))
        self._slope = 0.9 * self._slope + 0.1 * gradient
        self._square = 0.99 * self._square + 0.01 * gradient**2
        shape = np.sqrt(self._square / (1 - 0.99**k)) + 1e-12
        self.place = self.place - rate * (self._slope / (1 - 0.9**k)) / shape


def fit(steps: int = 120, n: int = 200, seed: int = 1, device: str = "auto") -> FloatArray:
    """Fit r / gamma and gamma ``[step, 2]`` by Adam (Kingma and Ba 2015) on their logarithms."""
    means = ts.expectation(
        promoter(), ["capacity", "gamma"], ["M", "M * M"], times=8.0, n=n, seed=seed, device=device,
        conditions={"mean": MEAN},
    )  # fmt: skip
    adam = Adam(np.log([20.0, 4.0]), steps)
    course = [np.exp(adam.place)]
    for _ in range(steps):
        theta = course[-1]
        _, gradient = loss_and_gradient(*means.with_jacobian(theta))
        adam.step(gradient * theta)  # by the logarithms
        adam.place = np.maximum(adam.place, np.log(LEAST))
        course.append(np.exp(adam.place))
    return np.array(course)


def fit_all(steps: int = 120, n: int = 200, seed: int = 1, device: str = "auto") -> FloatArray:
    """Fit r / gamma, gamma and the 17 k_on ``[step, 19]``.

    A factor of all k_on is the third parameter: its derivative in a row is that by the logarithm of
    the row's k_on. So 19 derivatives take three pairs in a row.
    """
    means = ts.expectation(
        promoter(own_k_on=True), ["capacity", "gamma", "scale"], ["M", "M * M"], times=8.0, n=n,
        seed=seed, device=device, conditions={"k_row": 20.0 / MEAN - 1},
    )  # fmt: skip
    adam = Adam(np.log(np.r_[20.0, 4.0, 20.0 / MEAN - 1]), steps)
    course = [np.exp(adam.place)]
    for _ in range(steps):
        theta = course[-1]
        found = means.with_jacobian([*theta[:2], 1.0], conditions={"k_row": theta[2:]})
        _, gradients = losses_and_gradients(*found)
        adam.step(np.r_[gradients[:, :2].sum(axis=0) * theta[:2], gradients[:, 2]])
        course.append(np.exp(adam.place))
    return np.array(course)


if __name__ == "__main__":
    found = fit()
    for what, (capacity, gamma) in (
        ("begins at", found[0]),
        ("ends at", found[-1]),
        ("exact optimum", (13.6086, 8.1503)),
        ("Rijal and Mehta", (90.25 / 6.20, 6.20)),
    ):
        loss = exact_loss(capacity, gamma)
        print(f"{what:16} r / gamma {capacity:7.4f}  gamma {gamma:7.4f}  exact loss {loss:.4f}")
    capacity, gamma, *k_on = fit_all()[-1]
    loss = exact_loss(capacity, gamma, np.array(k_on))
    print(
        f"{'all 19 end at':16} r / gamma {capacity:7.4f}  gamma {gamma:7.4f}  exact loss {loss:.4f}"
    )
    print("with all 19 free the exact optimum is 3.9850, at r / gamma 13.9905 and gamma 5.3979")
