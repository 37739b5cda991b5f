"""Checks of the modules that scripts and packages for Horovod import beside the frameworks'."""
import importlib
import importlib.util
import re
import threading

from checks import check, raises

import horovod
from horovod.common import util
from horovod.runner import mpi_run
from horovod.runner.util import threads


@check
def whoever_compares_versions_is_satisfied():
    version = horovod.__version__
    assert version == "0.28.1" and version >= "0.27.0"
    assert tuple(map(int, version.split(".")[:3])) >= (0, 22, 1)
    assert util.is_version_greater_equal_than(version, "0.22.0")
    assert re.fullmatch(r"\d+\.\d+\.\d+", horovod.runtime_version)
    assert set(horovod.__all__) <= set(dir(horovod)) | {"run", "runtime_version"}


@check
def what_is_not_here_gives_the_reason():
    for name, where in (("spark", "Spark"), ("ray", "Ray")):
        for module in (f"horovod.{name}", f"horovod.{name}.torch", f"horovod.{name}.runner"):
            text = raises(ImportError, importlib.import_module, module)
            assert text.startswith(f"horovod.{name} is not part of this package: {where}"), text
            assert "horovod.run()" in text, text
    for name in ("horovod.run.runner", "horovod.runner.http.http_server", "horovod.runner.gloo_run"):
        raises(ModuleNotFoundError, importlib.import_module, name)


@check
def an_answer_that_stays_the_same_is_asked_for_once():
    asked = []

    @util._cache
    def answer(question, verbose=False):
        asked.append((question, verbose))
        return len(asked)

    assert [answer(1), answer(1), answer(1, verbose=True), answer(2), answer(2)] == [1, 1, 2, 3, 3]
    assert util.mpi_built() and util.mpi_built() and not util.gloo_built()


@check
def a_function_is_called_in_a_thread():
    seen = []
    thread = threads.in_thread(seen.append, ("a",), name="appender")
    thread.join()
    assert seen == ["a"] and thread.name == "appender" and thread.daemon
    assert "args must be a tuple" in raises(ValueError, threads.in_thread, seen.append, "a")
    quiet = threads.in_thread(seen.index, ("b",), daemon=False, silent=True)
    quiet.join()
    assert not quiet.daemon


@check
def a_function_waits_for_an_event_or_for_the_one_that_stops_it():
    seen, event = [], threading.Event()
    thread = threads.on_event(event, seen.append, ("set",))
    assert not seen
    event.set()
    thread.join()
    assert seen == ["set"]
    stop = threading.Event()
    stopped = threads.on_event(threading.Event(), seen.append, ("never",), stop=stop, check_stop_interval_s=0.01)
    stop.set()
    stopped.join()
    assert seen == ["set"]
    raises(ValueError, threads.on_event, None, seen.append, ("x",))


@check
def a_function_is_called_for_each_of_many_arguments():
    calls = [(i, 2) for i in range(20)]
    assert threads.execute_function_multithreaded(pow, calls, max_concurrent_executions=3) == {
        i: i * i for i in range(20)}
    assert threads.execute_function_multithreaded(pow, []) == {}
    done = threading.Event()
    assert threads.execute_function_multithreaded(done.set, [()], block_until_all_done=False) is None
    done.wait()
    raises(ZeroDivisionError, threads.execute_function_multithreaded, divmod, [(1, 1), (1, 0)])


@check
def the_mpi_in_the_path_is_named():
    assert mpi_run.is_open_mpi() and mpi_run.mpi_available()
    assert not (mpi_run.is_mpich() or mpi_run.is_intel_mpi() or mpi_run.is_spectrum_mpi())
    assert not mpi_run.mpi_available(env={"PATH": "/nowhere"})
