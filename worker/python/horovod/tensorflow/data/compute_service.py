"""Datasets that a second job prepares, by tf.data's service: the workers' side and the side of the ranks that train.

The workers' job is `horovodrun -np N python -m horovod.tensorflow.data.compute_worker CONFIG`. It writes the file CONFIG, which the
ranks that train read: TfDataServiceConfig.read(CONFIG, wait_for_file_creation=True).
"""
import binascii
import contextlib
import dataclasses
import json
import os
import pathlib
import tempfile
import time
import typing

import tensorflow as tf

from horovod.common import basics
from horovod.tensorflow.data.rendezvous import ComputeClient, own_host

SIDES = ("compute", "training")  # where dispatchers run


@dataclasses.dataclass(frozen=True)
class TfDataServiceConfig:
    """How to reach the service of a job of workers: where it listens, the key, and how many dispatchers and workers there are."""
    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: typing.Mapping[str, typing.Sequence[typing.Tuple[str, int]]]
    key: bytes
    timeout: int = 60

    def compute_client(self, verbose=1):
        """Returns a client of the service."""
        return ComputeClient(self.addresses, self.key, verbose=verbose)

    def to_dict(self):
        """Returns the fields as JSON can hold them."""
        return {**dataclasses.asdict(self), "key": binascii.hexlify(self.key).decode()}

    @staticmethod
    def from_dict(config):
        """Reverses to_dict()."""
        addresses = {name: [tuple(address) for address in listed] for name, listed in config["addresses"].items()}
        return TfDataServiceConfig(**{**config, "key": binascii.unhexlify(config["key"]), "addresses": addresses})

    def write(self, filename):
        """Writes a file that only this user can read, because it has the key. It is complete as soon as it is there."""
        path = pathlib.Path(filename)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(self.to_dict(), file)
        os.replace(part, path)

    @staticmethod
    def read(filename, wait_for_file_creation=False):
        """Returns the contents of a file; wait_for_file_creation: waits until it is there."""
        while wait_for_file_creation and not os.path.exists(filename):
            time.sleep(0.2)
        return TfDataServiceConfig.from_dict(json.loads(pathlib.Path(filename).read_text(encoding="utf-8")))


def _reachable(target):
    """Returns the address of a server of tf.data, which names its host "localhost", as other hosts reach it."""
    return target.replace("localhost", own_host())


@contextlib.contextmanager
def tf_data_service(compute_config, rank):
    """Yields the address of this rank's dispatcher for tf.data.experimental.service.distribute(), once its workers are there.

    Dispatchers on the training side run in the ranks that train, as long as the body does.
    """
    client = compute_config.compute_client(verbose=2)
    number = rank if compute_config.dispatchers > 1 else 0
    server = None
    if compute_config.dispatcher_side == "training" and rank == number:
        server = tf.data.experimental.service.DispatchServer()
        client.register_dispatcher(number, _reachable(server.target))
    try:
        address = client.wait_for_dispatcher_registration(number, compute_config.timeout)
        client.wait_for_dispatcher_worker_registration(number, compute_config.timeout)
        yield address
    finally:
        if server is not None:
            _stop(server)


def _stop(server):
    """Ends a server of tf.data, for which it has no public function."""
    server._stop()  # pylint: disable=protected-access


def send_to_data_service(dataset, compute_config, rank, size=None, processing_mode="distributed_epoch", reuse_dataset=False,
                         round_robin=False):
    """Returns a dataset whose elements the workers prepare. Also a method of tf.data.Dataset.

    reuse_dataset: the ranks of one dispatcher share the elements. round_robin: they get them in turn, of which there are `size`.
    """
    if compute_config.dispatcher_side == "training":
        raise RuntimeError('With dispatchers on the side "training", use "with tf_data_service(config, rank) as address" and '
                           "tf.data.experimental.service.distribute(..., service=address).")
    is_in_turn = reuse_dataset and round_robin
    with tf_data_service(compute_config, rank) as address:
        return dataset.apply(tf.data.experimental.service.distribute(
            processing_mode=processing_mode, service=address, job_name="job" if reuse_dataset else None,
            consumer_index=rank if is_in_turn else None, num_consumers=size if is_in_turn else None))


tf.data.Dataset.send_to_data_service = send_to_data_service


def compute_worker_fn(compute_config):
    """Runs a worker in this rank of the workers' job, and a dispatcher in every one that needs it, until the service ends."""
    basics.init()
    worker = basics.rank()
    number, place = divmod(worker, compute_config.workers_per_dispatcher)
    client = compute_config.compute_client(verbose=2)
    dispatcher = None
    if compute_config.dispatcher_side == "compute" and place == 0:
        dispatcher = tf.data.experimental.service.DispatchServer()
        client.register_dispatcher(number, _reachable(dispatcher.target))
    address = client.wait_for_dispatcher_registration(number, compute_config.timeout)
    server = tf.data.experimental.service.WorkerServer(tf.data.experimental.service.WorkerConfig(
        dispatcher_address=address.split("://")[1], worker_address=f"{own_host()}:%port%", heartbeat_interval_ms=1000,
        dispatcher_timeout_ms=compute_config.timeout * 1000))
    client.register_worker_for_dispatcher(number, worker)
    try:
        client.wait_for_shutdown()
    finally:
        _stop(server)
        if dispatcher is not None:
            _stop(dispatcher)
