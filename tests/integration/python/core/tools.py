"""Checks of horovod.common.util, horovod.common.exceptions and horovod.data."""
import os
import threading
import warnings

from checks import check, raises

from horovod import _core
from horovod.common import util
from horovod.common.exceptions import (HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt,
                                       get_version_mismatch_message)
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader


@check
def lists_are_split_evenly():
    assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
    assert util.split_list([1], 3) == [[1], [], []]


@check
def versions_are_compared_number_by_number():
    for one, other, is_newer in (("2.15.0", "2.6", True), ("1.9", "2", False), ("2.0.0+cpu", "2.0", True),
                                 ("2.0", "2.0.0", False), ("0.28.1", "0.28.1", True)):
        assert util.is_version_greater_equal_than(one, other) is is_newer, (one, other)
    for wrong in ((2, "2.0"), ("2.0", None), ("", "2.0")):
        raises(ValueError, util.is_version_greater_equal_than, *wrong)


@check
def powers_of_two_are_known():
    assert [util.num_rank_is_power_2(n) for n in (0, 1, 2, 3, 4, 6, 1024)] == [False, True, True, False, True, False, True]


@check
def what_can_be_iterated_over_is_known():
    assert [util.is_iterable(thing) for thing in ([], "text", {}, iter(()), 3, None)] == [True] * 4 + [False] * 2


@check
def variables_are_set_for_a_block():
    with util.env(HOROVOD_TRIED="1", PATH=None):
        assert os.environ["HOROVOD_TRIED"] == "1" and "PATH" not in os.environ
    assert "HOROVOD_TRIED" not in os.environ and "PATH" in os.environ
    with util.env(HOROVOD_TRIED="1"):
        raises(KeyError, _fails_within, HOROVOD_TRIED="2")
        assert os.environ["HOROVOD_TRIED"] == "1"


def _fails_within(**variables):
    with util.env(**variables):
        raise KeyError("within")


@check
def there_is_one_extension_for_all_frameworks():
    path = util.get_extension_full_path("horovod/torch/__init__.py", "mpi_lib")
    assert path == _core.__file__ and path.endswith(".so") and util.get_ext_suffix().endswith(".so")
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", "horovod/torch/__init__.py", "mpi_lib")
    file, _core.__file__ = _core.__file__, "/nowhere/_core.so"
    try:
        text = raises(ImportError, util.check_extension, "horovod.torch", "HOROVOD_WITH_PYTORCH", "x", "mpi_lib")
    finally:
        _core.__file__ = file
    assert text.startswith("Extension horovod.torch has not been built: /nowhere/_core.so not found"), text


@check
def what_there_is_built_in_is_told():
    assert util.mpi_built(verbose=True) is True and util.nccl_built(verbose=True) == 0
    assert not any(built(verbose=True) for built in (util.gloo_built, util.ddl_built, util.ccl_built))
    assert util.gpu_available("torch", verbose=True) is False
    assert util.extension_available("mxnet", verbose=True) is False and util.extension_available("tensorflow") is False


@check
def average_and_op_exclude_each_other():
    choose = util.get_average_backwards_compatibility_fun(_Ops)
    assert (choose(None, None), choose("max", None)) == ("average", "max")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert (choose(None, True), choose(None, False)) == ("average", "sum")
    assert [warning.category for warning in seen] == [DeprecationWarning] * 2, seen
    assert raises(ValueError, choose, "sum", True) == \
        "The op parameter supersedes average. Please provide only one of them."


class _Ops:
    Average, Sum = "average", "sum"


@check
def another_version_of_a_framework_is_a_warning_or_an_import_error():
    util.check_installed_version("pytorch", "2.0")  # built for none: any will do
    text = get_version_mismatch_message("pytorch", "2.1", "2.0")
    assert "Framework pytorch installed with version 2.0 but found version 2.1." in text
    with util.env(HOROVOD_PYTORCH_VERSION="2.0"):
        util.check_installed_version("pytorch", "2.0")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            util.check_installed_version("pytorch", "2.1")
        assert [str(warning.message) for warning in seen] == [text]
        assert raises(ImportError, util.check_installed_version, "pytorch", "2.1", OSError("no symbol")) == text
    error = HorovodVersionMismatchError("pytorch", "2.1", "2.0")
    assert (error.name, error.version, error.installed_version) == ("pytorch", "2.1", "2.0")


@check
def exceptions_of_a_job_are_runtime_errors():
    assert issubclass(HorovodInternalError, RuntimeError) and issubclass(HostsUpdatedInterrupt, RuntimeError)
    assert HostsUpdatedInterrupt(True).skip_sync is True and HostsUpdatedInterrupt(skip_sync=False).skip_sync is False
    raises(TypeError, HostsUpdatedInterrupt)


class Squares(BaseDataLoader):
    """Batches that notice in which thread they are made."""

    def __init__(self, n, fails_at=None):
        self.n, self.fails_at, self.threads = n, fails_at, set()

    def __len__(self):
        return self.n

    def _iterate(self):
        for i in range(self.n):
            self.threads.add(threading.current_thread())
            if i == self.fails_at:
                raise OSError("the disk is gone")
            yield i * i

    def _process_batch(self, batch):
        return batch + 1


class AsyncSquares(AsyncDataLoaderMixin, Squares):
    """The same, ahead."""


@check
def a_data_loader_processes_what_it_iterates_over():
    loader = Squares(4)
    assert len(loader) == 4 and list(loader) == [1, 2, 5, 10] and list(loader) == [1, 2, 5, 10]
    raises(NotImplementedError, list, BaseDataLoader())
    raises(NotImplementedError, len, BaseDataLoader())


@check
def a_data_loader_loads_ahead_in_a_thread_of_each_epoch():
    here = threading.current_thread()
    for size, is_here in ((64, False), (1, False), (0, True)):
        loader = AsyncSquares(size, True, 5)
        assert [list(loader), list(loader)] == [[1, 2, 5, 10, 17]] * 2
        assert (here in loader.threads) is is_here and len(loader.threads) == (1 if is_here else 2)
        loader.close_async_loader()
    assert AsyncSquares(n=1).async_loader_queue_size == 64


@check
def a_data_loader_ends_in_the_midst_of_an_epoch():
    loader = AsyncSquares(async_loader_queue_size=2, n=1000)
    for batch in loader:
        if batch > 10:
            break
    loader.close_async_loader()
    loader.close_async_loader()
    assert not any(thread.is_alive() for thread in loader.threads)
    assert list(loader)[:3] == [1, 2, 5]


@check
def what_a_data_loader_raises_arrives_where_the_batches_are_used():
    seen = []
    text = raises(OSError, lambda: seen.extend(AsyncSquares(n=5, fails_at=3)))
    assert text == "the disk is gone" and seen == [1, 2, 5], seen
