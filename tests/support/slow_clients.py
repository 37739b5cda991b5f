"""Clients that hold connections to a server and get nowhere, as many as wanted, from a process of their own."""
import contextlib
import multiprocessing
import resource
import socket
import time

HEADER = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "
# The beginning of a TLS 1.2 handshake record of 16,384 bytes with a ClientHello in it.
HELLO = bytes.fromhex("16030140000100 3ffc 0303".replace(" ", ""))


def allow_descriptors(n):
    """So many sockets may be open in this process; False where the machine does not let us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < n:
        return False
    if soft != resource.RLIM_INFINITY and soft < n:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, hard))
    return True


class SlowClients:
    """count connections of one kind to a port of this machine, each of which is made again when it is closed, until the
    end of the `with` statement. Kinds: "silent"; "header" and "handshake" trickle in byte by byte; "reader" asks for
    pages and takes a byte now and then; "idle" has had an answer and keeps the connection. Each does something once in
    period_s, which are spread over it."""

    def __init__(self, port, kind, count, period_s=1.0):
        context = multiprocessing.get_context("fork")
        self.port, self.kind, self.period_s = port, kind, period_s
        self.sockets = [None] * count
        self._made, self._rounds = context.Value("L", 0), context.Value("L", 0)
        self.process = context.Process(target=self.run, daemon=True)

    @property
    def made(self):
        """How many connections were made, again or for the first time."""
        return self._made.value

    def __enter__(self):
        self.process.start()
        end = time.monotonic() + 60
        while self._rounds.value < 1:
            assert self.process.is_alive() and time.monotonic() < end, "the slow clients do not come up"
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()

    def run(self):
        n_steps = 50
        while True:
            for i, client in enumerate(self.sockets):
                try:
                    self.sockets[i] = self.go_on(client) if client else self.connect()
                except BlockingIOError:
                    pass
                except OSError:
                    if client:
                        client.close()
                    self.sockets[i] = None
                if i % max(1, len(self.sockets) // n_steps) == 0:
                    time.sleep(self.period_s / min(len(self.sockets), n_steps))
            self._rounds.value += 1

    def connect(self):
        client = socket.socket()
        if self.kind == "reader":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        try:
            client.settimeout(5)
            client.connect(("127.0.0.1", self.port))
            client.setblocking(False)
            if self.kind == "header":
                client.send(HEADER)
            elif self.kind == "handshake":
                client.send(HELLO)
            elif self.kind == "reader":
                client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 8)
            elif self.kind == "idle":
                client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        except OSError:
            client.close()
            raise
        self._made.value += 1
        return client

    def go_on(self, client):
        if self.kind in ("header", "handshake"):
            client.send(b"x")
        elif not client.recv(1 if self.kind == "reader" else 65536):
            raise ConnectionResetError
        return client


def probe(port, path="/healthz", context=None, timeout=5):
    """The status of one page on a new connection, as the kubelet asks; None when it does not come."""
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=timeout))
            if context:
                client = stack.enter_context(context.wrap_socket(client, server_hostname="127.0.0.1"))
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while piece := client.recv(65536):
                answer += piece
            return int(answer.split(b" ", 2)[1]) if answer else None
        except OSError:
            return None
