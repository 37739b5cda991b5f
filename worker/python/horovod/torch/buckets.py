"""Gradients that are submitted as one: groups of tensors, and flat gradients, which share one memory."""
import torch

FLAT_BYTES = 25 * 2 ** 20  # of a flat gradient: backward passes go on while it is reduced
_ALIGNMENT = 64  # in bytes, of each gradient in it


class Group:
    """Parameters that are submitted as one, the number of those that are not ready, and the streams of the others."""
    __slots__ = ("entries", "n_missing", "streams")

    def __init__(self, entries):
        self.entries = entries
        self.n_missing = len(entries)
        self.streams = set()

    def note_stream(self, gradient):
        """Notes the current stream, on which a backward pass has made a gradient."""
        if gradient is not None and gradient.is_cuda:
            self.streams.add(torch.cuda.current_stream(gradient.device))

    def join_streams(self):
        """Makes the current stream of each GPU wait for the gradients of the group, which it is submitted with."""
        for stream in self.streams:
            current = torch.cuda.current_stream(stream.device)
            if stream != current:
                current.wait_stream(stream)
        self.streams.clear()

    def restart(self):
        """Resets the count."""
        self.n_missing = len(self.entries)
        self.streams.clear()


class Flat(Group):
    """A group whose gradients are views of one tensor, which is submitted in their place. What the parameters have as gradients is
    copied there."""
    __slots__ = ("memory", "views", "addresses")

    def __init__(self, entries):
        super().__init__(entries)
        self._make()

    @property
    def name(self):
        """The name of the memory in the job."""
        return f"{self.entries[0].name}.flat"

    def _make(self):
        """Makes the memory for parameters as they are now, and takes all gradients in."""
        kinds = {(entry.parameter.dtype, entry.parameter.device) for entry in self.entries}
        if len(kinds) > 1:
            raise ValueError(f"flat_gradients: parameters of {self.name} have different types or devices now. Move or convert all of "
                             "them, or make the optimizer afterwards.")
        (dtype, device), = kinds
        places, n = _places([entry.parameter for entry in self.entries])
        self.memory = torch.zeros(n, dtype=dtype, device=device)
        self.views = {entry: self.memory[at:at + entry.parameter.numel()].view(entry.parameter.shape)
                      for entry, at in zip(self.entries, places)}
        self.addresses = {entry: view.data_ptr() for entry, view in self.views.items()}
        for entry in self.entries:
            self.take_in(entry)

    def _is_of(self, parameter):
        """Returns whether the memory can have the parameter's gradient: model.to() was not called since it was made."""
        return parameter.dtype is self.memory.dtype and parameter.device == self.memory.device

    def take_in(self, entry):
        """Copies a gradient that is elsewhere: after model.zero_grad(), backward passes make new ones. None counts as zeros."""
        view, gradient = self.views[entry], entry.parameter.grad
        if gradient is view and view.data_ptr() == self.addresses[entry]:
            return
        if not self._is_of(entry.parameter):
            self._make()
            return
        if gradient is view:  # its data was replaced
            at = (self.addresses[entry] - self.memory.data_ptr()) // self.memory.element_size()
            view = self.views[entry] = self.memory[at:at + view.numel()].view(view.shape)
        with torch.no_grad():
            if gradient is None:
                view.zero_()
            else:
                view.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
        if entry.parameter.requires_grad:
            entry.parameter.grad = view

    def take_in_all(self):
        """take_in() for each gradient; returns the memory."""
        for entry in self.entries:
            self.take_in(entry)
        return self.memory

    def clear(self):
        """Sets all gradients, which are None or zeros, to zeros: by one operation."""
        self.memory.zero_()
        for entry in self.entries:
            view = self.views[entry]
            if not self._is_of(entry.parameter) or view.data_ptr() != self.addresses[entry]:
                self.take_in(entry)
            elif entry.parameter.requires_grad:
                entry.parameter.grad = view


def _places(parameters):
    """Returns (where each parameter begins, the end of the last one), in elements."""
    step = max(1, _ALIGNMENT // parameters[0].element_size())
    places, end = [], 0
    for parameter in parameters:
        places.append(end)
        end += -(-parameter.numel() // step) * step
    return places, end


def _can_share(parameter):
    """Returns whether the gradient of a parameter may be a view: one that is not contiguous keeps its layout."""
    return parameter.layout is torch.strided and parameter.is_contiguous() and parameter.numel() > 0


def flat_lists(parameters):
    """Returns lists of parameters whose gradients share a memory: those of a type and device, from the last to the first, as
    backward passes finish them. Others are in no list."""
    full, lists = [], {}
    for parameter in reversed(parameters):
        if not _can_share(parameter):
            continue
        members = lists.setdefault((parameter.dtype, parameter.device), [])
        members.append(parameter)
        if sum(member.numel() for member in members) * parameter.element_size() >= FLAT_BYTES:
            full.append(lists.pop((parameter.dtype, parameter.device)))
    return [*full, *lists.values()]
