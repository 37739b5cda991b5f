"""Reading an audit log while its server writes it."""
import pytest

from audit import lines_of

LINES = [b'{"n":0}\n', '{"n":"ä"}\n'.encode(), b'{"n":2}\n']


@pytest.mark.parametrize("n_bytes", range(1 + sum(map(len, LINES))))
def test_a_log_has_the_whole_lines_that_begin_at_an_offset_or_later(tmp_path, n_bytes):
    path, text = tmp_path / "audit.log", b"".join(LINES)
    begins = [sum(map(len, LINES[:n])) for n in range(len(LINES))]
    path.write_bytes(text)
    assert lines_of(path, n_bytes) == [line for begin, line in zip(begins, LINES) if begin >= n_bytes]
    path.write_bytes(text[:n_bytes])
    assert lines_of(path) == [line for begin, line in zip(begins, LINES) if begin + len(line) <= n_bytes]
