# %% [markdown]
# # Gradients: sensitivities, and a fit
#
# How do the mean and the noise of a protein change with its rates? Pairs of trajectories that share most of their reaction events answer this with few trajectories. With the same derivatives, rate constants can be fitted to data.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tauslab as ts

net = ts.Network("gene")
net.add_species("M", 0)
net.add_species("P", 0)
for name, value in (("k_m", 5.0), ("g_m", 1.0), ("k_p", 4.0), ("g_p", 0.2)):
    net.add_parameter(name, value)
net.add_reaction("-> M", rate="k_m")
net.add_reaction("M ->", rate="g_m")
net.add_reaction("M -> M + P", rate="k_p")
net.add_reaction("P ->", rate="g_p")

# %%
times = np.linspace(1, 20, 20)
found = ts.sensitivity(net, outputs=["P", "P > 100"], times=times, n=2_000, seed=1)
print(found)
figure = found.plot()
plt.show()

# %% [markdown]
# The mean of P at the end is close to k_m k_p / (g_m g_p) = 100, so its elasticities approach 1, -1, 1 and -1; the last two need longer. The variance reduction compared with independent trajectories is:

# %%
print("elasticities of P:", np.round(found.elasticity[:, -1, 0], 2))
print("variance, times less:", np.round(found.variance_reduction[:, -1, 0]))
M, P = 5.0, 100 * (1 - (np.exp(-0.2 * 20) - 0.2 * np.exp(-20)) / 0.8)
print(f"mean of P {found.mean[-1, 0]:.2f}, exact {P:.2f}")

# %% [markdown]
# In the fit, the data are mean and variance of P at steady state, with k_p = 4 and g_p = 0.2. `ts.expectation` returns means of outputs as a function of parameters; `with_jacobian` also returns derivatives. The optimiser Adam minimises the
# squared errors of the logarithms of mean and variance, with 1,000 new pairs of trajectories per step. The variance is less certain and has a weight of one third.
#
# The function also accepts a PyTorch tensor; then `loss.backward()` computes the same gradient.

# %%
target_mean, target_variance = 100.0, 100.0 * (1 + 4.0 / (1.0 + 0.2))
means = ts.expectation(net, ["k_p", "g_p"], ["P", "P * P"], times=40.0, n=1_000, seed=1)


def loss_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
    mean, slope = means.with_jacobian(theta)
    (first, second), (by_first, by_second) = mean[0], slope[0]
    variance, by_variance = second - first**2, by_second - 2 * first * by_first
    errors = np.log([first / target_mean, variance / target_variance]) / [1, 3]
    slopes = np.array([by_first / first, by_variance / variance / 3])
    return float(errors @ errors), 2 * errors @ slopes


place, slope, square = np.log([8.0, 0.1]), np.zeros(2), np.zeros(2)
course = [np.exp(place)]
for k in range(1, 81):
    _, gradient = loss_and_gradient(course[-1])
    gradient = gradient * course[-1]  # by the logarithms
    slope, square = 0.9 * slope + 0.1 * gradient, 0.9 * square + 0.1 * gradient**2
    step = slope / (1 - 0.9**k) / np.sqrt(square / (1 - 0.9**k))
    place = place - 0.1 * (1 - k / 81) * step
    course.append(np.exp(place))
print("k_p and g_p:", np.round(course[-1], 3), "made with 4 and 0.2")
assert np.all(np.abs(course[-1] / [4.0, 0.2] - 1) < 0.1)

# %%
figure, axes = plt.subplots(figsize=(6, 4))
axes.plot(np.array(course) / [4.0, 0.2], label=["k_p", "g_p"])
axes.axhline(1, color="k", linestyle=":", label="made with")
axes.set(xlabel="step", ylabel="rate over the one behind the data", yscale="log")
legend = axes.legend()

# %% [markdown]
# More: [sensitivities](../sensitivities.md); a fit to measured promoters: [fit_promoter.py](../../examples/fit_promoter.py).
