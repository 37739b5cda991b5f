"""A framework for the tests: rows of numbers in lists of Python's, which nothing outside of it can read.

The extension cannot show their memory, so all is done on copies: more than PyTorch and NumPy ask of their adapters.
"""


class Rows:
    """A tensor of rows of equal length; `changes` counts how often it was written to in place."""

    def __init__(self, rows):
        self.rows = [list(map(float, row)) for row in rows]
        self.changes = 0

    def __eq__(self, other):
        return isinstance(other, Rows) and self.rows == other.rows

    __hash__ = None

    def __repr__(self):
        return f"Rows({self.rows})"


class Frozen(Rows):
    """The same, which cannot be written to."""
