"""A proxy in plain HTTP between the operator and the API server that answers some requests itself, as a server in trouble does."""
import contextlib
import email.utils
import http.client
import http.server
import json
import threading

import yaml

KEPT = ("accept", "content-type", "user-agent")


def status(code, reason, message):
    """An answer of the API server that is no success."""
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length else None
        refusal = self.server.rule(self.command, self.path)
        if refusal:
            self.server.refused.append((self.command, self.path))
            self.whole(refusal[0], "application/json", json.dumps(refusal[1]).encode())
            return
        api = self.server.api
        connection = http.client.HTTPSConnection(api.server.hostname, api.server.port, context=api.context)
        try:
            connection.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() in KEPT})
            response = connection.getresponse()
            if "watch=" in self.path:
                self.stream(response)
            else:
                self.whole(response.status, response.getheader("Content-Type") or "application/json", response.read())
        except OSError:
            self.close_connection = True
        finally:
            connection.close()

    def begin(self, code, content_type):
        self.send_response_only(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Date", email.utils.formatdate(usegmt=True))

    def whole(self, code, content_type, body):
        self.begin(code, content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, response):
        self.begin(response.status, response.getheader("Content-Type") or "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := response.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        pass

    do_GET = do_POST = do_PATCH = do_DELETE = answer


class Refuser(http.server.ThreadingHTTPServer):
    """`rule(method, path)` gives the answer to a request, or None for the server's; `refused` are those that it has answered."""
    daemon_threads = True

    def __init__(self, server, directory):
        super().__init__(("127.0.0.1", 0), Handler)
        self.api, self.rule, self.refused = server.api, lambda method, path: None, []
        self.kubeconfig = directory / "refuser"
        self.kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server_port}"}}],
            "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))

    def handle_error(self, *_):
        pass


@contextlib.contextmanager
def serve(server, directory):
    refuser = Refuser(server, directory)
    thread = threading.Thread(target=refuser.serve_forever, daemon=True)
    thread.start()
    try:
        yield refuser
    finally:
        refuser.shutdown()
        thread.join()
        refuser.server_close()
