"""An admission webhook on the loopback device, whose answers the test chooses."""
import base64
import contextlib
import http.server
import json
import ssl
import subprocess
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each review with what the server's `answer` returns for the request: a dictionary that joins the response,
    or bytes that take the place of the whole answer."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        answer = self.server.answer(request)
        body = answer if isinstance(answer, bytes) else json.dumps({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": request["uid"], "allowed": True, **answer}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the API server does not wait for one that is slow
            self.wfile.write(body)

    def log_message(self, *args):
        """Nothing to stderr."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args):
        """Connections that the API server gave up are no error of the test's."""


def allow(_):
    return {}


def patch(operations):
    """The part of an answer that applies a JSON Patch."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


@contextlib.contextmanager
def serving(directory):
    """A server over TLS that allows everything until its attribute `answer` is set; `client_config` is what a
    configuration of the API server calls it by."""
    key, cert = directory / "webhook-key.pem", directory / "webhook-cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                    "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.answer = allow
        server.client_config = {"url": f"https://127.0.0.1:{server.server_port}/",
                                "caBundle": base64.b64encode(cert.read_bytes()).decode()}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
