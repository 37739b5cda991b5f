"""A relay between the operator and the API server that can fall silent. It ends TLS on both sides and passes HTTP/2 frames on, so
that TCP stays alive whatever it withholds, and it can withhold single streams."""
import asyncio
import base64
import contextlib
import pathlib
import ssl
import subprocess
import tempfile
import threading
import urllib.parse

import yaml

PREFACE = 24  # bytes with which a client begins
DATA, HEADERS, RST_STREAM, WINDOW_UPDATE = 0, 1, 3, 8
END_STREAM = 1


def text_of(section, key):
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"]).decode()
    return pathlib.Path(section[key]).read_text(encoding="utf-8")


class Connection:
    """What is known of one: the streams that are open, those that are withheld, and whether all of it is silent."""

    def __init__(self, is_silent, passes=None):
        self.is_silent, self.passes = is_silent, passes  # passes: bytes from the server, before it falls silent
        self.open, self.withheld = set(), set()

    async def pause(self):
        while self.is_silent or (self.passes is not None and self.passes <= 0):
            await asyncio.sleep(0.1)


async def read_frame(reader):
    """(type, flags, stream, bytes) of the next HTTP/2 frame."""
    head = await reader.readexactly(9)
    body = await reader.readexactly(int.from_bytes(head[:3], "big"))
    return head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7fffffff, head + body


async def pass_to_server(connection, reader, writer):
    writer.write(await reader.readexactly(PREFACE))
    while True:
        kind, _, stream, frame = await read_frame(reader)
        await connection.pause()
        if kind == HEADERS:
            connection.open.add(stream)
        elif kind == RST_STREAM:
            connection.open.discard(stream)
        writer.write(frame)
        await writer.drain()


async def pass_to_client(connection, reader, writer, to_server):
    while True:
        kind, flags, stream, frame = await read_frame(reader)
        await connection.pause()
        if connection.passes is not None:
            connection.passes -= len(frame)
        if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
            connection.open.discard(stream)
        if stream in connection.withheld:
            if kind == DATA and len(frame) > 9:  # as if the client had read it
                to_server.write(bytes((0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0)) + (len(frame) - 9).to_bytes(4, "big"))
            continue
        writer.write(frame)
        await writer.drain()


class Relay(threading.Thread):
    """Runs until stop(); `kubeconfig` leads to it. What is withheld from now on is said by methods of any thread."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="hvd-relay-"))
        config = yaml.safe_load(pathlib.Path(server.kubeconfig).read_text(encoding="utf-8"))
        self.target = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
        self.to_server = self._client_context(config)
        self.to_clients = self._server_context()
        self.connections, self.is_hung, self.allowances = [], False, []
        self.loop, self.is_listening, self.port = asyncio.new_event_loop(), threading.Event(), 0
        self.start()
        self.is_listening.wait()
        self.kubeconfig = self._write_config(config)

    def _client_context(self, config):
        user = config["users"][0]["user"]
        context = ssl.create_default_context(cadata=text_of(config["clusters"][0]["cluster"], "certificate-authority"))
        pem = self.directory / "client.pem"
        pem.write_text(text_of(user, "client-certificate") + "\n" + text_of(user, "client-key"), encoding="utf-8")
        context.load_cert_chain(pem)
        context.set_alpn_protocols(["h2"])
        return context

    def _server_context(self):
        key, self.cert = self.directory / "key.pem", self.directory / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                        "-out", self.cert, "-days", "2", "-subj", "/CN=relay", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, key)
        context.set_alpn_protocols(["h2"])
        return context

    def _write_config(self, config):
        config["clusters"][0]["cluster"] = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(self.cert)}
        config["users"][0]["user"] = {}
        path = self.directory / "config"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def run(self):
        asyncio.set_event_loop(self.loop)
        listener = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.to_clients,
                                                                     ssl_handshake_timeout=600))
        self.port = listener.sockets[0].getsockname()[1]
        self.is_listening.set()
        self.loop.run_forever()

    async def _serve(self, reader, writer):
        connection = Connection(self.is_hung, self.allowances.pop(0) if self.allowances else None)
        self.connections.append(connection)
        await connection.pause()
        up = None
        try:
            up_reader, up = await asyncio.open_connection(self.target.hostname, self.target.port, ssl=self.to_server)
            tasks = [asyncio.ensure_future(pass_to_server(connection, reader, up)),
                     asyncio.ensure_future(pass_to_client(connection, up_reader, writer, up))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        except OSError:
            pass
        finally:
            for end in filter(None, (writer, up)):
                with contextlib.suppress(Exception):
                    end.close()

    def hang(self):
        """The connections that there are are silent for ever, and new ones until revive()."""
        self.is_hung = True
        self.silence()

    def revive(self):
        """New connections are relayed again."""
        self.is_hung = False

    def silence(self):
        """The connections that there are are silent for ever."""
        for connection in self.connections:
            connection.is_silent = True

    def withhold_open_streams(self):
        """What is under way now is never answered on, as the watches; what is asked from now on is."""
        for connection in self.connections:
            connection.withheld |= connection.open

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()
        for path in self.directory.iterdir():
            path.unlink()
        self.directory.rmdir()
