"""Not part of this package; the import raises an error with the reason."""
raise ModuleNotFoundError(
    "horovod.ray is not part of this package: Ray's actors start no ranks of MPI. Start the job with horovodrun, "
    "horovod.run() or a HorovodJob on Kubernetes, and use horovod.torch in it.", name=__name__)
