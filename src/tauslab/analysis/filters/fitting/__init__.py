"""Maximum likelihood where likelihoods are estimates: a swarm that searches, then a surface."""
