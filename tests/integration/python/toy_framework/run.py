"""All checks of a framework that is one folder, in one job: each rank runs this program."""
import binding
import collectives  # noqa: F401
from checks import run_checks

if __name__ == "__main__":
    run_checks(binding)
