"""The groups of gradients that an optimizer reduces as one. The ranks compare them once, when they make the optimizer.

Rank 0 of the process set sends its groups, and every rank compares its own with them. If one differs, all raise the same
ValueError: otherwise they would wait for a group that not every rank submits.

A rank without groups takes no part: the others wait for it, and the stall inspector names it.
"""
import contextlib
import dataclasses

from horovod.common import refusals
from horovod.common.objects import broadcast_object, gather_objects
from horovod.common.util import split_list
from horovod.torch.mpi_ops import rank

_NAME = "DistributedOptimizer.groups"
_CALL = "broadcast", f"{_NAME}.size"  # the first collective of every rank with groups
_SHOWN = 3  # names, or different ranks, in a message


@dataclasses.dataclass
class Plan:
    """The groups of a rank, by the names of the parameters."""
    trained: list  # in its order
    frozen: list  # named, and not trained
    groups: object  # their number, or a list of lists
    argument: str = "groups"  # of DistributedOptimizer

    def lists(self, order):
        """Returns the groups as lists, sorted by a list of names; names beyond it come last."""
        known = set(order)
        trained = set(self.trained)
        names = [name for name in order if name in trained] + [name for name in self.trained if name not in known]
        if isinstance(self.groups, int):
            return split_list(names, min(self.groups, len(names)) or 1)
        places = {name: place for place, name in enumerate(names)}
        return [sorted((name for name in members if name in places), key=places.get) for members in self.groups]

    def partners(self, order):
        """Returns {name: the names of its group}."""
        return {name: frozenset(members) for members in self.lists(order) for name in members}

    def differs(self, first):
        """Returns whether the plan differs from the first rank's, regardless of the order."""
        return (self.argument != first.argument or set(self.trained) != set(first.trained)
                or self.partners(first.trained) != first.partners(first.trained))


def agreed(plan, process_set):
    """Returns the lists of names that are reduced as one, the same on every rank. If ranks differ, raises ValueError on all."""
    if process_set.size() == 1:
        return plan.lists(plan.trained)
    root = (process_set.ranks or [0])[0]
    first = broadcast_object(plan, root, _NAME, process_set)
    differing = gather_objects((rank(), plan) if plan.differs(first) else None, f"{_NAME}.differ", process_set)
    others = dict(filter(None, differing))
    if others:
        raise ValueError(difference(root, first, others))
    return plan.lists(first.trained)


@contextlib.contextmanager
def told(groups, process_set):
    """Announces an exception of its body, which makes an optimizer: with groups, the other ranks' comparison fails with it."""
    try:
        yield
    except Exception as error:
        if groups and not getattr(error, "is_told", False):
            refusals.tell(error, *_CALL, process_set)
            error.is_told = True
        raise


def difference(root, first, others):
    """Returns a message about how the plans of other ranks, {rank: plan}, differ from the first rank's."""
    alike = {}
    for other, plan in sorted(others.items()):
        lists = frozenset(map(frozenset, plan.lists(first.trained)))
        alike.setdefault((frozenset(plan.trained), lists), (plan, []))[1].append(other)
    texts = [_difference(f"rank {root}", first, _ranks(ranks), plan) for plan, ranks in alike.values()]
    return (f"{first.argument}: {_some(texts, '; ')}. Every rank has to give DistributedOptimizer the same {first.argument} of the "
            "same parameters.")


def _difference(root, first, there, plan):
    missing = [name for name in first.trained if name not in set(plan.trained)]
    extra = [name for name in plan.trained if name not in set(first.trained)]
    if missing or extra:
        reasons = [*_reasons(missing, plan, there), *_reasons(extra, first, root)]
        plural = there.startswith("ranks")
        return (f"{root} trains {len(first.trained)} parameters, {there} {'train' if plural else 'trains'} "
                f"{len(plan.trained)}: {'; '.join(reasons)}")
    if first.argument != plan.argument:
        return f"{root} has {first.argument}, {there} {plan.argument}"
    if isinstance(first.groups, int) and isinstance(plan.groups, int):
        return f"groups={first.groups} on {root}, groups={plan.groups} on {there}"
    ours, theirs = first.partners(first.trained), plan.partners(first.trained)
    name = next(name for name in first.trained if ours.get(name) != theirs.get(name))
    return f"{name} is reduced {_with(name, ours)} on {root}, {_with(name, theirs)} on {there}"


def _reasons(names, plan, where):
    """Yields the reasons why a rank does not train the names."""
    frozen = [name for name in names if name in set(plan.frozen)]
    unknown = [name for name in names if name not in set(plan.frozen)]
    for which, one, more in ((frozen, "is frozen", "are frozen"), (unknown, "is no parameter", "are no parameters")):
        if which:
            yield f"{_some(which)} {one if len(which) == 1 else more} on {where}"


def _with(name, partners):
    others = sorted(partners.get(name, frozenset()) - {name})
    return f"with {_some(others)}" if others else "alone"


def _some(words, separator=", "):
    """Joins the first of several words, and counts the rest."""
    rest = len(words) - _SHOWN
    return separator.join(words[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _ranks(ranks):
    """Returns sorted ranks as text: "rank 1", "ranks 1-3, 7"."""
    runs = []
    for one in ranks:
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {text}"
