"""The callbacks that keep an elastic state up to date during fit(). Their modules add keras.callbacks.Callback as a base class."""


class CommitStateCallbackImpl:
    """Commits the state after every batches_per_commit batches, and after each epoch."""

    def __init__(self, backend, state, batches_per_commit, *args):
        super().__init__(*args)
        del backend
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs=None):
        """Begins to count anew."""
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch, logs=None):
        """Commits if it is time."""
        self.batches_remaining -= 1
        if self.batches_remaining <= 0:
            self.commit()

    def on_epoch_end(self, epoch, logs=None):
        """Commits."""
        self.commit()

    def commit(self):
        """Commits the state, and begins to count anew."""
        self.batches_remaining = self.batches_per_commit
        self.state.commit()


class UpdateBatchStateCallbackImpl:
    """Records in state.batch the batch of the epoch. An epoch that is continued has only the rest of its steps."""

    def __init__(self, backend, state, *args):
        super().__init__(*args)
        del backend
        self.state = state
        self.steps_per_epoch = None
        self._first = 0  # the batch with which this epoch has begun

    def on_train_begin(self, logs=None):
        """Forgets the number of steps of an earlier training."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch, logs=None):
        """Subtracts the batches that were done before from the number of steps that Keras reports."""
        self._first = self.state.batch
        if (self.params or {}).get("steps"):
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_batch_end(self, batch, logs=None):
        """Records the batch."""
        self.state.batch = batch

    def on_epoch_end(self, epoch, logs=None):
        """Begins the next epoch at its first batch."""
        self.state.batch = 0


class UpdateEpochStateCallbackImpl:
    """Records in state.epoch the number of epochs that are complete, those before this fit() included."""

    def __init__(self, backend, state, *args):
        super().__init__(*args)
        del backend
        self.state = state
        self.initial_epoch = state.epoch
        self._first = None  # the number that fit() gives its first epoch: 0, or its argument initial_epoch

    def on_train_begin(self, logs=None):
        """Notes the epochs that are complete."""
        self.initial_epoch = self.state.epoch
        self._first = None

    def on_epoch_begin(self, epoch, logs=None):
        """Notes the number of the first epoch."""
        if self._first is None:
            self._first = epoch

    def on_epoch_end(self, epoch, logs=None):
        """Counts the epoch."""
        self.state.epoch = self.initial_epoch + epoch - (self._first or 0) + 1
