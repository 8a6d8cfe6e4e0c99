# %% [markdown]
# # Filtering: rates from a noisy time course
#
# The numbers of predators and prey are measured eight times with noise. A particle filter estimates the likelihood of the time course, and the true numbers; particle marginal Metropolis-Hastings (PMMH)
# samples the rate constants. The same as a script: [filter_lotka_volterra.py](../../examples/filter_lotka_volterra.py).

# %%
import matplotlib.pyplot as plt
import numpy as np

import tauslab as ts

net = ts.Network("lotka_volterra")
net.add_species("X", 50)
net.add_species("Y", 100)
net.add_parameter("birth", 1.0)
net.add_parameter("death", 0.6)
net.add_reaction("X -> 2 X", rate="birth")
net.add_reaction("X + Y -> 2 Y", rate=0.005)
net.add_reaction("Y ->", rate="death")

# %% [markdown]
# The data come from one trajectory, with normal noise of standard deviation 10 on both counts; one measurement of the predators is missing.

# %%
times = np.arange(1.0, 9.0)
true = ts.run(net, n=1, times=times, seed=1)
noise = np.random.default_rng(1).normal(0, 10, (2, 8))
data = {"time": times, "X": true.counts("X")[0] + noise[0], "Y": true.counts("Y")[0] + noise[1]}
data["Y"][4] = np.nan
observe = {"X": "normal(sd=10)", "Y": "normal(sd=10)"}

found = ts.particle_filter(net, data, observe=observe, n=5_000, seed=1)
print(f"log-likelihood {found.log_likelihood:.2f}")
print("fewest effective particles:", int(found.effective_size.min()), "of 5,000")
state = found.mean[4, 1], found.sd[4, 1], true.counts("Y")[0, 4]
print("Y at t = 5, not measured: {:.0f} ± {:.0f}, true {}".format(*state))
assert abs(state[0] - state[2]) < 4 * state[1]

# %% [markdown]
# The estimate of the likelihood is unbiased, and varies less with more particles. For each of three numbers of particles, one call runs fifty filters:

# %%
for n in (50, 200, 800):
    fifty = ts.particle_filters(net, data, observe=observe, n=n, seed=2, set={"birth": np.ones(50)})
    logs = fifty.log_likelihood
    mean = np.log(np.mean(np.exp(logs - logs.max()))) + logs.max()
    print(f"{n:4} particles: sd of the logarithm {logs.std():.2f}, log of the mean {mean:.2f}")

# %%
figure = found.plot()
plt.show()

# %% [markdown]
# PMMH proposes rate constants by a random walk and accepts them by the ratio of estimated likelihoods. Its posterior is exact for any number of particles: chains with 60 and with 180 particles agree.

# %%
prior = {"birth": "loguniform(0.3,3)", "death": "loguniform(0.2,2)"}
start = {"birth": 0.8, "death": 0.5}
chains = {}
for n in (60, 180):
    chains[n] = ts.pmmh(
        net, data, prior, observe=observe, n=n, steps=300, warm_up=100, seed=n, start=start,
        proposal=[0.1, 0.1], chains=4,
    )  # fmt: skip
    for name, value in (("birth", 1.0), ("death", 0.6)):
        draws = chains[n][name].ravel()
        print(f"n = {n}: {name} {draws.mean():.3f} ± {draws.std():.3f}, made with {value}")

few, many = (chains[n]["birth"].ravel() for n in (60, 180))
assert abs(few.mean() - many.mean()) < 0.5 * many.std()

# %%
figure, axes = plt.subplots(figsize=(6, 4))
for n, chain in chains.items():
    axes.hist(chain["birth"].ravel(), 40, density=True, histtype="step", label=f"{n} particles")
axes.axvline(1.0, color="k", linestyle=":", label="made with")
axes.set(xlabel="birth", ylabel="density of draws")
legend = axes.legend()

# %% [markdown]
# More: [inference](../inference.md); ensemble samplers with many filters at once: [inference_emcee.py](../../examples/inference_emcee.py).
