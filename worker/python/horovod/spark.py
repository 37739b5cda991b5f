"""Not part of this package; the import raises an error with the reason."""
raise ModuleNotFoundError(
    "horovod.spark is not part of this package: Spark's executors start no ranks of MPI. Start the job with horovodrun, "
    "horovod.run() or a HorovodJob on Kubernetes, and use horovod.torch in it.", name=__name__)
