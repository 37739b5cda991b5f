"""What can end a training step."""


class HorovodInternalError(RuntimeError):
    """A collective failed, or the job did: `status` is the number of the runtime's status, or None."""
    status = None


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts were added or removed: training goes on with others. With `skip_sync` no state has to be synchronised."""

    def __init__(self, skip_sync):
        super().__init__()
        self.skip_sync = skip_sync


def get_version_mismatch_message(name, version, installed_version):
    """What to say when a framework is not the one that the package was built for."""
    return (f"Framework {name} installed with version {installed_version} but found version {version}.\n"
            "             This can result in unexpected behavior including runtime errors.\n"
            "             Reinstall Horovod using `pip install --no-cache-dir` to build with the new version.")


class HorovodVersionMismatchError(ImportError):
    """A framework is not the one that the package was built for."""

    def __init__(self, name, version, installed_version):
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
