"""What the environment of a process says about its place in a job."""
import os

_VARIABLES = (("HOROVOD_RANK", "HOROVOD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))


def get_env_rank_and_size():
    """Returns (rank, size) as the launcher has set them, without a job: (0, 1) if it has not."""
    for pair in _VARIABLES:
        values = [os.environ.get(name) for name in pair]
        if None not in values:
            return int(values[0]), int(values[1])
        if values != [None, None]:
            raise RuntimeError(f"The environment has only one of {pair[0]} and {pair[1]}.")
    return 0, 1
