"""tauslab: stochastic chemistry on many GPUs, with the same bits for the same seed everywhere."""

from tauslab import dbn as dbn
from tauslab import geometry as geometry
from tauslab.model.errors import ConfigError as ConfigError
from tauslab.model.errors import DecompositionError as DecompositionError
from tauslab.model.errors import DeviceError as DeviceError
from tauslab.model.errors import DeviceFailed as DeviceFailed
from tauslab.model.errors import ExecutorError as ExecutorError
from tauslab.model.errors import InputFileError as InputFileError
from tauslab.model.errors import KernelCompileError as KernelCompileError
from tauslab.model.errors import ModelError as ModelError
from tauslab.model.errors import OutputError as OutputError
from tauslab.model.errors import StoppedEarly as StoppedEarly
from tauslab.model.errors import TauslabError as TauslabError
from tauslab.model.lattice.lattice import Lattice as Lattice
from tauslab.model.network.generate import colloidal_aggregation as colloidal_aggregation
from tauslab.model.network.generate import cyclic_chain as cyclic_chain
from tauslab.model.network.generate import random_network as random_network
from tauslab.model.network.molecules import in_molecules as in_molecules
from tauslab.model.network.network import Network as Network
from tauslab.model.network.synthetic import synthetic_equations as synthetic_equations
from tauslab.runner.api.api import open as open
from tauslab.runner.api.api import read as read
from tauslab.runner.api.api import run as run
from tauslab.runner.api.simulator import Simulator as Simulator
from tauslab.runner.api.simulator import simulator as simulator
from tauslab.runner.options.hook_view import LatticeView as LatticeView
from tauslab.runner.results.lattice.result import LatticeResult as LatticeResult
from tauslab.runner.results.result import Result as Result

__version__ = "0.1.0"
