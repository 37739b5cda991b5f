"""A sampler that divides an epoch among the ranks, and divides its remaining samples again after a change of ranks."""
import itertools
import math
import random

import torch.utils.data

from horovod.torch.mpi_ops import rank, size


class ElasticSampler(torch.utils.data.Sampler):
    """Yields each rank's part of the samples that were not processed in this epoch.

    Call record_batch after each batch and set_epoch at the end of each epoch, and make the sampler part of the elastic state.
    All ranks get the same number of samples: if they do not divide evenly, two ranks share some samples.
    """

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_indices = set()
        self.reset()

    def set_epoch(self, epoch):
        """Begins an epoch: no sample of it is processed, and it has an order of its own."""
        self.epoch = epoch
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Records that this rank has processed its next batch, of that size. As in Horovod, ignores batch_idx, which may
        continue over epochs."""
        del batch_idx
        self.record_indices(self.indices[self._n_recorded:self._n_recorded + batch_size])
        self._n_recorded += batch_size

    def record_indices(self, indices):
        """Records that this rank has processed these samples."""
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx, batch_size):
        """Returns the samples of this rank's batch of that number; the last one may be smaller."""
        start = batch_idx * batch_size
        return self.indices[start:start + batch_size]

    @property
    def processed_num(self):
        """The number of samples of the epoch that all ranks have processed, if they are as far as this one."""
        here = len(self.processed_indices) - self._n_before
        return min(self._n_before + here * self.num_replicas, len(self.dataset))

    @processed_num.setter
    def processed_num(self, number):
        """Marks the first `number` samples of the epoch as processed; reset() divides the others."""
        self.processed_indices = set(self._order()[:number])
        self._n_before = len(self.processed_indices)

    def load_state_dict(self, state_dict):
        """Resumes from a state_dict, of this or of another number of ranks. It lists the samples of one rank, or, in
        Horovod's own form, none: then the processed samples are the first ones of the epoch."""
        self.epoch = state_dict["epoch"]
        self.processed_indices = set(state_dict.get("processed_indices", ()))
        if state_dict.get("processed_num", 0) > len(self.processed_indices):
            self.processed_indices.update(self._order()[:state_dict["processed_num"]])
        self.reset()

    def state_dict(self):
        """Returns the epoch, the samples of it that this rank has processed, and their number over all ranks."""
        return {"epoch": self.epoch, "processed_num": self.processed_num,
                "processed_indices": set(self.processed_indices)}

    def reset(self):
        """Divides the unprocessed samples among the current ranks."""
        self.num_replicas = size()
        self.rank = rank()
        self._n_before = len(self.processed_indices)
        self._n_recorded = 0  # of self.indices, by record_batch
        self.remaining_indices = [i for i in self._order() if i not in self.processed_indices]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.indices = self._share()

    def _order(self):
        """Returns all samples in the order of this epoch."""
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        return order

    def _share(self):
        padded = itertools.islice(itertools.cycle(self.remaining_indices), self.total_size)
        return list(itertools.islice(padded, self.rank, None, self.num_replicas))

    def __iter__(self):
        return iter(list(self.indices))

    def __len__(self):
        return self.num_samples
