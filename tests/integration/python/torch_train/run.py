"""All checks of what trains, in one job: each rank runs this program."""
import optimizers  # noqa: F401
import normalisation  # noqa: F401
import exchange  # noqa: F401
import companions  # noqa: F401  (last: its jobs end and begin anew)
from checks import run_checks

if __name__ == "__main__":
    run_checks()
