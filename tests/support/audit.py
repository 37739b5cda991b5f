"""The audit log of an API server, read while the server writes it."""


def lines_of(path, since=0):
    """The whole lines (bytes) that begin at that offset or later. An offset that was taken while a line was being written lies
    within it, and the last line may be there in part."""
    with open(path, "rb") as log:
        if since:
            log.seek(since - 1)
            log.readline()  # to the end of the line that holds the byte before; nothing more where that is its end
        return [line for line in log.read().splitlines(keepends=True) if line.endswith(b"\n")]
