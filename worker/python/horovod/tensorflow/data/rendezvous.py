"""Where the dispatchers and workers of tf.data's service, and the ranks that train, find each other.

One process of the workers' job has the service, and the others ask it over TCP. Both sides prove that they have the key. Then each
connection carries one request and one answer, as JSON: nothing from the network is unpickled.
"""
import contextlib
import json
import secrets
import socket
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge

REQUEST_MAX = 1 << 20  # bytes
GRACE_S = 5  # for the last answers at a shutdown


def make_key():
    """Returns a new key."""
    return secrets.token_bytes(32)


def own_host():
    """Returns the name or address by which other hosts reach this one."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
        return name
    except OSError:
        return "127.0.0.1"


class ComputeService:
    """The service of a job with so many dispatchers, each with so many workers. Threads of its own answer until shutdown()."""

    def __init__(self, dispatchers, workers_per_dispatcher, key):
        self._dispatchers = dispatchers
        self._workers_per_dispatcher = workers_per_dispatcher
        self._key = key
        self._changed = threading.Condition()
        self._addresses = {}  # {dispatcher: its address}
        self._workers = {number: set() for number in range(dispatchers)}
        self._is_ended = False
        self._is_closed = False  # the next connection is the last one
        self._n_open = 0  # connections
        self._listener = Listener(("", 0), backlog=64)
        self._acceptor = threading.Thread(target=self._accept, daemon=True, name="hvd-data-service")
        self._acceptor.start()

    def addresses(self):
        """Returns {name: [(host, port)]}: where clients connect to."""
        port = self._listener.address[1]
        return {"host": [(own_host(), port)], "local": [("127.0.0.1", port)]}

    def _accept(self):
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                if self._is_ended:
                    return
                time.sleep(0.1)  # a client that has gone, or too many open files
                continue
            if self._is_closed:
                connection.close()
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True, name="hvd-data-client").start()

    def _serve(self, connection):
        with self._changed:
            self._n_open += 1
        try:
            with connection, contextlib.suppress(OSError, EOFError, AuthenticationError):
                deliver_challenge(connection, self._key)
                answer_challenge(connection, self._key)
                connection.send_bytes(json.dumps(self._answer(connection.recv_bytes(REQUEST_MAX))).encode())
        finally:
            with self._changed:
                self._n_open -= 1
                self._changed.notify_all()

    def _answer(self, request):
        """Returns {"result": ...} or {"error": text} for the bytes of a request."""
        try:
            name, *arguments = json.loads(request)
            return {"result": self._REQUESTS[name](self, *arguments)}
        except Exception as error:  # pylint: disable=broad-except  # the client raises it
            return {"error": f"{type(error).__name__}: {error}"}

    def _check(self, dispatcher):
        if dispatcher not in self._workers:
            raise ValueError(f"There is no dispatcher {dispatcher}: there are {self._dispatchers}.")

    def _register_dispatcher(self, dispatcher, address):
        self._check(dispatcher)
        with self._changed:
            if self._addresses.setdefault(dispatcher, address) != address:
                raise ValueError(f"Dispatcher {dispatcher} is {self._addresses[dispatcher]} already.")
            self._changed.notify_all()

    def _register_worker(self, dispatcher, worker):
        self._check(dispatcher)
        with self._changed:
            self._workers[dispatcher].add(worker)
            self._changed.notify_all()

    def _wait(self, is_so, timeout, what):
        with self._changed:
            if not self._changed.wait_for(lambda: is_so() or self._is_ended, timeout) or not is_so():
                raise TimeoutError(f"{what} within {timeout} s.")

    def _wait_for_dispatcher(self, dispatcher, timeout):
        self._check(dispatcher)
        self._wait(lambda: dispatcher in self._addresses, timeout, f"Dispatcher {dispatcher} did not register")
        return self._addresses[dispatcher]

    def _wait_for_workers(self, dispatcher, timeout):
        self._check(dispatcher)
        self._wait(lambda: len(self._workers[dispatcher]) >= self._workers_per_dispatcher, timeout,
                   f"Not all {self._workers_per_dispatcher} workers of dispatcher {dispatcher} registered")

    def _wait_for_shutdown(self):
        with self._changed:
            self._changed.wait_for(lambda: self._is_ended)

    def _begin_shutdown(self):
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def shutdown(self):
        """Ends the service, and all that wait for that."""
        self._begin_shutdown()
        with self._changed:
            self._changed.wait_for(lambda: self._n_open == 0, GRACE_S)
        self._is_closed = True
        with contextlib.suppress(OSError):  # accept() does not return when its socket is closed, and keeps it open
            socket.create_connection(("127.0.0.1", self._listener.address[1]), 1).close()
        self._acceptor.join(GRACE_S)
        self._listener.close()

    _REQUESTS = {"register_dispatcher": _register_dispatcher, "register_worker": _register_worker, "dispatcher": _wait_for_dispatcher,
                 "workers": _wait_for_workers, "wait": _wait_for_shutdown, "shutdown": _begin_shutdown}


class ComputeClient:
    """Asks the service at one of the addresses. Raises RuntimeError with the reason if it refuses, ConnectionError without it."""

    def __init__(self, compute_addresses, key, verbose=1):
        self._addresses = [tuple(address) for addresses in compute_addresses.values() for address in addresses]
        self._key = key
        self._verbose = verbose

    def _ask(self, *request):
        failure = None
        for address in self._addresses:
            try:
                with Client(address, authkey=self._key) as connection:
                    connection.send_bytes(json.dumps(request).encode())
                    answer = json.loads(connection.recv_bytes(REQUEST_MAX))
                break
            except (OSError, EOFError) as error:
                failure = error
        else:
            raise ConnectionError(f"No data service answers at {self._addresses}: {failure}")
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def register_dispatcher(self, dispatcher_id, dispatcher_address):
        """Makes a dispatcher known."""
        self._ask("register_dispatcher", dispatcher_id, dispatcher_address)

    def wait_for_dispatcher_registration(self, dispatcher_id, timeout):
        """Returns the address of a dispatcher, once it is known."""
        return self._ask("dispatcher", dispatcher_id, timeout)

    def register_worker_for_dispatcher(self, dispatcher_id, worker_id):
        """Makes a worker of a dispatcher known."""
        self._ask("register_worker", dispatcher_id, worker_id)

    def wait_for_dispatcher_worker_registration(self, dispatcher_id, timeout):
        """Waits until all workers of a dispatcher are known."""
        self._ask("workers", dispatcher_id, timeout)

    def wait_for_shutdown(self):
        """Waits for the end of the service."""
        self._ask("wait")

    def shutdown(self):
        """Ends the service."""
        self._ask("shutdown")
