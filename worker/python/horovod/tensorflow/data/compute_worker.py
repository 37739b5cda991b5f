"""The workers' job of tf.data's service: `horovodrun -np N python -m horovod.tensorflow.data.compute_worker CONFIG`."""
import argparse

from horovod.common import basics
from horovod.common.objects import broadcast_object
from horovod.tensorflow.data.compute_service import SIDES, TfDataServiceConfig, compute_worker_fn
from horovod.tensorflow.data.rendezvous import ComputeService, make_key


def main(dispatchers, dispatcher_side, configfile, timeout):
    """Runs a worker in every rank until the service is ended. Rank 0 has the service, and writes the file by which it is found."""
    basics.init()
    if dispatcher_side not in SIDES:
        raise ValueError(f"dispatcher_side is one of {SIDES}, not {dispatcher_side!r}.")
    if basics.size() % dispatchers:
        raise ValueError(f"{basics.size()} ranks cannot be shared by {dispatchers} dispatchers: use a multiple.")
    service = config = None
    try:
        if basics.rank() == 0:
            key = make_key()
            workers = basics.size() // dispatchers
            service = ComputeService(dispatchers, workers, key)
            config = TfDataServiceConfig(dispatchers, workers, dispatcher_side, service.addresses(), key, timeout)
            config.write(configfile)
        compute_worker_fn(broadcast_object(config, name="TfDataServiceConfig"))
    finally:
        if service is not None:
            service.shutdown()


def parsed(arguments=None):
    """Returns the arguments of the command."""
    parser = argparse.ArgumentParser(description="Prepares datasets for ranks that train.")
    parser.add_argument("configfile", help="the file to write, by which the ranks that train find this job")
    parser.add_argument("--dispatchers", type=int, default=1, help="how many dispatchers there are")
    parser.add_argument("--dispatcher-side", choices=SIDES, default="compute", help="which job runs them")
    parser.add_argument("--timeout", type=int, default=60, help="seconds to wait for each other")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(**vars(parsed()))
