"""Checks of tf.data's service: each rank is a worker of the service, in a thread, and trains beside it."""
import os
import pathlib
import stat
import threading
import time

import tensorflow as tf
from checks import check, raises

import horovod.tensorflow as hvd
from horovod.runner.common.util.env import get_env_rank_and_size
from horovod.tensorflow.data import compute_worker, rendezvous
from horovod.tensorflow.data.compute_service import (
    ComputeClient, TfDataServiceConfig, compute_worker_fn, send_to_data_service, tf_data_service)


class Service:
    """The workers' job, in threads of these ranks; `with` gives the configuration."""

    def __init__(self, side, dispatchers=1):
        self._path = str(pathlib.Path(os.environ["CHECK_RESULTS"], f"data_service.{side}.{dispatchers}"))
        self._failures = []
        self._thread = threading.Thread(target=self._work, args=(dispatchers, side), daemon=True)

    def _work(self, dispatchers, side):
        try:
            compute_worker.main(dispatchers=dispatchers, dispatcher_side=side, configfile=self._path, timeout=50)
        except Exception as error:  # pylint: disable=broad-except  # raised below
            self._failures.append(error)

    def __enter__(self):
        self._thread.start()
        return TfDataServiceConfig.read(self._path, wait_for_file_creation=True)

    def __exit__(self, *_):
        hvd.allgather_object("all have their elements")
        if hvd.rank() == 0:
            TfDataServiceConfig.read(self._path).compute_client().shutdown()
        self._thread.join(60)
        assert not self._thread.is_alive() and not self._failures, self._failures
        hvd.allgather_object("all have ended")
        if hvd.rank() == 0:
            os.remove(self._path)


def elements(dataset):
    return [int(element) for element in dataset.map(lambda x: x)]


@check
def workers_prepare_a_dataset():
    with Service("compute") as config:
        dataset = tf.data.Dataset.range(20).map(lambda x: x * 2)
        shared = elements(send_to_data_service(dataset, config, hvd.rank(), hvd.size(), reuse_dataset=True))
        everything = sorted(sum(hvd.allgather_object(shared), []))
        assert everything == list(range(0, 40, 2)), everything
        own = elements(dataset.send_to_data_service(config, rank=hvd.rank(), processing_mode="parallel_epochs"))
        assert sorted(own) == sorted(list(range(0, 40, 2)) * hvd.size()), own


@check
def elements_may_come_in_turn():
    """To one rank: each of several that takes its turns would have to go on until all have what they want."""
    with Service("compute") as config:
        if hvd.rank() == 0:
            dataset = tf.data.Dataset.range(20).repeat()
            in_turn = dataset.send_to_data_service(config, rank=0, size=1, processing_mode="parallel_epochs", reuse_dataset=True,
                                                   round_robin=True)
            found = elements(in_turn.take(6))
            assert len(found) == 6 and set(found) <= set(range(20)), found


@check
def ranks_that_train_may_have_the_dispatcher():
    with Service("training") as config:
        with tf_data_service(config, hvd.rank()) as address:
            assert address.startswith("grpc://") and "localhost" not in address
            distribute = tf.data.experimental.service.distribute("distributed_epoch", address, job_name="job")
            shared = elements(tf.data.Dataset.range(8).apply(distribute))
            assert sorted(sum(hvd.allgather_object(shared), [])) == list(range(8))
        assert "tf_data_service" in raises(RuntimeError, send_to_data_service, tf.data.Dataset.range(1), config, hvd.rank())


@check
def each_rank_may_have_a_dispatcher_of_its_own():
    with Service("compute", hvd.size()) as config:
        assert (config.dispatchers, config.workers_per_dispatcher) == (hvd.size(), 1)
        assert sorted(elements(send_to_data_service(tf.data.Dataset.range(5), config, hvd.rank()))) == list(range(5))
        client = config.compute_client(verbose=3)
        assert isinstance(client, ComputeClient)
        assert "There is no dispatcher 99" in raises(RuntimeError, client.register_dispatcher, 99, "grpc://x:1")
        assert "already" in raises(RuntimeError, client.register_dispatcher, 0, "grpc://x:1")


@check
def a_configuration_is_kept_in_a_file_of_this_user():
    path = pathlib.Path(os.environ["CHECK_RESULTS"], f"config.{hvd.rank()}")
    config = TfDataServiceConfig(2, 3, "compute", {"host": [("h", 1)]}, b"\0key", timeout=7)
    config.write(str(path))
    assert TfDataServiceConfig.read(str(path)) == config == TfDataServiceConfig.from_dict(config.to_dict())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    raises(FileNotFoundError, TfDataServiceConfig.read, str(path), wait_for_file_creation=False)


@check
def the_service_answers_who_has_the_key_and_says_what_it_misses():
    service = rendezvous.ComputeService(1, 2, b"key")
    client = ComputeClient(service.addresses(), b"key")
    assert "Dispatcher 0 did not register within 0.1 s" in raises(RuntimeError, client.wait_for_dispatcher_registration, 0, 0.1)
    client.register_worker_for_dispatcher(0, 5)
    assert "Not all 2 workers" in raises(RuntimeError, client.wait_for_dispatcher_worker_registration, 0, 0.1)
    assert "There is no dispatcher 1" in raises(RuntimeError, client.wait_for_dispatcher_registration, 1, 0.1)
    assert "KeyError" in raises(RuntimeError, client._ask, "unheard of")
    raises(Exception, ComputeClient(service.addresses(), b"another").wait_for_shutdown)
    waiting = threading.Thread(target=client.wait_for_shutdown)
    waiting.start()
    while not service._n_open:  # it has not connected yet
        time.sleep(0.01)
    service.shutdown()
    waiting.join(30)
    assert not waiting.is_alive()
    assert "No data service answers" in raises(ConnectionError, client.shutdown)


@check
def a_service_that_has_ended_answers_no_client():
    for _ in range(100):  # its thread may wait for the next client, or not yet
        service = rendezvous.ComputeService(1, 1, b"key")
        client = ComputeClient(service.addresses(), b"key")
        service.shutdown()
        assert "No data service answers" in raises(ConnectionError, client.shutdown)


@check
def the_arguments_of_the_workers_are_checked():
    assert vars(compute_worker.parsed(["file", "--dispatchers", "2", "--dispatcher-side", "training", "--timeout", "3"])) == {
        "configfile": "file", "dispatchers": 2, "dispatcher_side": "training", "timeout": 3}
    assert "dispatcher_side is one of" in raises(ValueError, compute_worker.main, 1, "elsewhere", "file", 1)
    assert "use a multiple" in raises(ValueError, compute_worker.main, hvd.size() + 1, "compute", "file", 1)
    nowhere = TfDataServiceConfig(1, 1, "compute", {"host": [("127.0.0.1", 9)]}, b"key", timeout=1)
    raises((ConnectionError, OSError), compute_worker_fn, nowhere)
    with_service = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"} & set(os.environ)
    assert not with_service or get_env_rank_and_size() == (hvd.rank(), hvd.size())


@check
def the_environment_names_the_rank():
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.endswith(("_RANK", "_SIZE"))}
    try:
        assert get_env_rank_and_size() == (0, 1)
        os.environ["HOROVOD_RANK"] = "3"
        assert "only one of HOROVOD_RANK" in raises(RuntimeError, get_env_rank_and_size)
        os.environ["HOROVOD_SIZE"] = "5"
        assert get_env_rank_and_size() == (3, 5)
    finally:
        for name in ("HOROVOD_RANK", "HOROVOD_SIZE"):
            os.environ.pop(name, None)
        os.environ.update(kept)
