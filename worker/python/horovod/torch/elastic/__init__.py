"""Elastic training for PyTorch: a state that survives, a sampler that goes on, and run."""
from horovod.common.elastic import run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import init, shutdown

__all__ = ["TorchState", "ElasticSampler", "run"]


def run(func):
    """Decorates a training function whose first argument is a State.

    It is called again, with the state of the last commit, when ranks were lost, and with the state
    as it is when hosts were added or taken away.
    """
    return run_fn(func, _reset)


def _reset():
    shutdown()
    init()
