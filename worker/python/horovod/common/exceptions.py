"""The exceptions that can end a training step."""


class HorovodInternalError(RuntimeError):
    """A collective or the job failed: `status` is the number of the runtime's status, or None."""
    status = None


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts were added or removed: training continues with others. With `skip_sync` no state has to be synchronised."""

    def __init__(self, skip_sync):
        super().__init__()
        self.skip_sync = skip_sync


def get_version_mismatch_message(name, version, installed_version):
    """Returns the message about a framework that is not the one for which the package was built."""
    return (f"Framework {name} installed with version {installed_version} but found version {version}.\n"
            "             This can result in unexpected behavior including runtime errors.\n"
            "             Reinstall Horovod using `pip install --no-cache-dir` to build with the new version.")


class HorovodVersionMismatchError(ImportError):
    """A framework is not the one for which the package was built."""

    def __init__(self, name, version, installed_version):
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
