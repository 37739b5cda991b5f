"""Data loaders."""
from horovod.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader  # noqa: F401
