"""One rank of horovod.run(): python -m horovod.runner.rank FOLDER. Calls the function and stores its result."""
import os
import pickle
import stat
import sys
import time
import traceback

from horovod.runner import _Places


def _number():
    """Returns the number that the launcher gave to this rank."""
    for name in ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    return 0


def _open_own(path):
    """Opens a file that only this user can have written, because it will be unpickled."""
    file = open(path, "rb")  # pylint: disable=consider-using-with
    about = os.fstat(file.fileno())
    if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        file.close()
        raise PermissionError(f"{path} could have been written by another user")
    return file


def _call(places):
    """Returns (whether the function returned, its result or the traceback, when it ended)."""
    try:
        with _open_own(places.function) as file:
            sys.path[:] = pickle.load(file)
            function, args, kwargs = pickle.load(file)
        return True, function(*args, **kwargs), time.time()
    except FileNotFoundError:
        if os.path.exists(places.function):
            return False, traceback.format_exc(), time.time()
        sys.exit(f"horovod.run: {places.folder} is not there on {os.uname().nodename}: call it in a directory that "
                 "all hosts share")
    except Exception:  # pylint: disable=broad-except  # run() raises it for its caller
        return False, traceback.format_exc(), time.time()


def _pickled(answer):
    try:
        import cloudpickle as pickler  # pylint: disable=import-outside-toplevel
    except ImportError:
        pickler = pickle
    try:
        return pickler.dumps(answer)
    except Exception:  # pylint: disable=broad-except
        return pickle.dumps((False, f"what the function returned cannot be pickled:\n{traceback.format_exc()}",
                             answer[2]))


def main():
    """Calls the function and stores its result. The exit status is 1 if the function failed."""
    places = _Places(sys.argv[1])
    answer = _call(places)
    path = places.result(_number())
    with open(path + ".part", "wb") as file:
        file.write(_pickled(answer))
    os.rename(path + ".part", path)
    if not answer[0]:
        print(answer[1], file=sys.stderr, flush=True)
    return 0 if answer[0] else 1


if __name__ == "__main__":
    sys.exit(main())
