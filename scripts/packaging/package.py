"""Spack: ``repos/builtin/packages/tauslab/package.py``; the sha256 of the sdist is to be filled in."""

from spack.package import *  # noqa: F403 - as every recipe of Spack


class Tauslab(PythonPackage):  # noqa: F405
    """Stochastic chemistry on CPUs, GPUs and clusters; the same seed gives the same bits."""

    pypi = "tauslab/tauslab-0.1.0.tar.gz"
    license("BSD-3-Clause")

    version("0.1.0", sha256="to be filled in")  # noqa: F405
    variant("mpi", default=True, description="Ranks under mpirun and srun")  # noqa: F405
    variant("cuda", default=False, description="NVIDIA GPUs")  # noqa: F405

    depends_on("gcc", type="run")  # noqa: F405 - each model is compiled when it runs
    depends_on("python@3.11:", type=("build", "run"))  # noqa: F405
    depends_on("py-setuptools@77:", type="build")  # noqa: F405
    with default_args(type=("build", "run")):  # noqa: F405
        depends_on("py-numpy@1.26:")  # noqa: F405
        depends_on("py-h5py@3.12:")  # noqa: F405
        depends_on("py-python-libsbml@5.20:")  # noqa: F405
        depends_on("py-rich@13:")  # noqa: F405
        depends_on("py-xarray@2024.1:")  # noqa: F405
        depends_on("py-h5netcdf@1.3:")  # noqa: F405
        depends_on("py-scipy@1.12:")  # noqa: F405
        depends_on("py-matplotlib@3.8:")  # noqa: F405
        depends_on("py-mpi4py@4.1:", when="+mpi")  # noqa: F405
        depends_on("py-cupy@14:", when="+cuda")  # noqa: F405
