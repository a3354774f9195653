"""WebSocket by programs that share nothing with the server: `websockets` as an upstream and as a client of HTTP/1.1, Hypercorn as an
upstream of HTTP/2 without TLS, h2 and aioquic as clients of HTTP/2 and HTTP/3, with `websockets` for the frames.

usage: websocket.py serve VERSION              an upstream, which prints its port and echoes messages; /no is refused
       websocket.py ask VERSION URL CERTIFICATE  a client, which prints what it has seen
"""

import asyncio
import socket
import ssl
import sys
from http import HTTPStatus
from urllib.parse import urlsplit

import h2.events
import hypercorn.asyncio
from aioquic.asyncio import QuicConnectionProtocol, connect as connect_quic
from aioquic.h3.connection import H3_ALPN, H3Connection, Setting
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from h2.config import H2Configuration
from h2.connection import H2Connection
from hypercorn.config import Config
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode
from websockets.protocol import CLIENT, OPEN, Protocol, State

LIMIT_SECONDS = 120
MESSAGES = ["hello", bytes(range(256)) * 4096, "", "x" * 70_000]
CLOSED = 4321


async def echo(connection):
    try:
        async for message in connection:
            await connection.send(message)
    except ConnectionClosed:
        # The client's code is no error of the upstream.
        pass


def refuse(connection, request):
    if request.path == "/no":
        return connection.respond(HTTPStatus.FORBIDDEN, "not here\n")
    return None


async def upstream_http1():
    async with serve(echo, "127.0.0.1", 0, process_request=refuse, subprotocols=["echo"], max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


async def application(scope, receive, send):
    """Echoes messages (ASGI)."""
    if scope["type"] != "websocket":
        return
    assert scope["http_version"] == "2", scope
    await receive()
    if scope["path"] == "/no":
        await send({"type": "websocket.http.response.start", "status": 403, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b"not here\n"})
        return
    await send({"type": "websocket.accept", "subprotocol": "echo"})
    while (message := await receive())["type"] == "websocket.receive":
        await send(message | {"type": "websocket.send"})


async def upstream_http2():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.websocket_max_message_size = 1 << 24
    config.loglevel = "ERROR"
    # After a WebSocket it does not end the stream, but closes the connection when that has been idle.
    config.keep_alive_timeout = 0.5
    await hypercorn.asyncio.serve(application, config)


async def over_http1(url, certificate):
    context = ssl.create_default_context(cafile=certificate)
    try:
        async with connect(url, ssl=context, subprotocols=["echo"], max_size=None, proxy=None, compression=None) as socket:
            print("101", socket.subprotocol)
            for message in MESSAGES:
                await socket.send(message)
                print("echo", await socket.recv() == message)
            await socket.close(CLOSED)
            print("closed", socket.close_code)
    except InvalidStatus as refused:
        print(refused.response.status_code, refused.response.body.decode().strip())


def head(url):
    return [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", url.netloc),
        (":path", url.path),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "echo"),
    ]


class Http3(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.seen = asyncio.Queue()

    def quic_event_received(self, event):
        for found in self.http.handle_event(event):
            self.seen.put_nowait(found)

    async def offers_tunnels(self):
        while self.http.received_settings is None:
            await asyncio.sleep(0.01)
        return self.http.received_settings.get(Setting.ENABLE_CONNECT_PROTOCOL)

    async def open(self, url):
        stream = self._quic.get_next_available_stream_id()
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in head(url)])
        self.transmit()
        return stream

    async def head(self):
        found = await self.seen.get()
        assert isinstance(found, HeadersReceived), found
        return {name.decode(): value.decode() for name, value in found.headers}, found.stream_ended

    async def send(self, stream, data, end=False):
        self.http.send_data(stream, data, end_stream=end)
        self.transmit()

    async def take(self):
        found = await self.seen.get()
        assert isinstance(found, DataReceived), found
        return found.data, found.stream_ended


class Http2:
    """A connection of HTTP/2 for one stream."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.http = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.http.initiate_connection()
        self.seen = []

    async def wait(self, kind):
        """Returns the next event of a kind, or the end of the stream."""
        while True:
            for event in self.seen:
                if isinstance(event, (kind, h2.events.StreamEnded)):
                    self.seen.remove(event)
                    return event
            self.writer.write(self.http.data_to_send())
            await self.writer.drain()
            received = await self.reader.read(65536)
            assert received, "the connection has ended"
            for event in self.http.receive_data(received):
                # A server that has responded may ask the client to send no more (RFC 9113 §8.1).
                assert not isinstance(event, h2.events.StreamReset) or event.error_code == 0, event
                if isinstance(event, h2.events.DataReceived):
                    self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.seen.append(event)

    async def offers_tunnels(self):
        await self.wait(h2.events.RemoteSettingsChanged)
        return self.http.remote_settings.enable_connect_protocol

    async def open(self, url):
        stream = self.http.get_next_available_stream_id()
        self.http.send_headers(stream, head(url))
        return stream

    async def head(self):
        found = await self.wait(h2.events.ResponseReceived)
        return dict(found.headers), False

    async def send(self, stream, data, end=False):
        while data:
            room = min(self.http.local_flow_control_window(stream), self.http.max_outbound_frame_size)
            if room == 0:
                await self.wait(h2.events.WindowUpdated)
                continue
            self.http.send_data(stream, data[:room])
            data = data[room:]
        if end:
            self.http.end_stream(stream)
        self.writer.write(self.http.data_to_send())
        await self.writer.drain()

    async def take(self):
        found = await self.wait(h2.events.DataReceived)
        return (b"", True) if isinstance(found, h2.events.StreamEnded) else (found.data, False)


async def converse(status, protocol, connection, stream):
    """Talks through an open tunnel; its frames are those of `websockets`."""
    print(status, protocol)
    frames = Protocol(CLIENT, state=OPEN, max_size=None)

    async def send(last=False):
        for part in frames.data_to_send():
            await connection.send(stream, part)
        if last:
            await connection.send(stream, b"", end=True)

    async def take():
        data, ended = await connection.take()
        frames.receive_data(data)
        if ended:
            frames.receive_eof()

    async def receive():
        while True:
            events = frames.events_received()
            if events:
                return events[0]
            await take()

    for message in MESSAGES:
        if isinstance(message, str):
            frames.send_text(message.encode())
        else:
            frames.send_binary(message)
        await send()
        frame = await receive()
        received = frame.data
        while not frame.fin:
            frame = await receive()
            assert frame.opcode is Opcode.CONT, frame
            received += frame.data
        sent = message.encode() if isinstance(message, str) else message
        print("echo", received == sent)
    frames.send_close(CLOSED)
    await send(last=True)
    await receive()
    # The code is known once the stream has ended.
    while frames.state is not State.CLOSED:
        await take()
    print("closed", frames.close_code)


async def visit(connection, url):
    """Asks for a WebSocket and uses it, or prints why there is none."""
    print("extended connect", await connection.offers_tunnels())
    stream = await connection.open(url)
    fields, ended = await connection.head()
    status = int(fields[":status"])
    if status == 200:
        await converse(status, fields.get("sec-websocket-protocol", ""), connection, stream)
        return
    body = b""
    while not ended:
        data, ended = await connection.take()
        body += data
    print(status, body.decode().strip())


async def over_http3(text, certificate):
    url = urlsplit(text)
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name=url.hostname)
    configuration.load_verify_locations(certificate)
    async with connect_quic("127.0.0.1", url.port, configuration=configuration, create_protocol=Http3) as client:
        await visit(client, url)


async def over_http2(text, certificate):
    url = urlsplit(text)
    context = ssl.create_default_context(cafile=certificate)
    context.set_alpn_protocols(["h2"])
    streams = await asyncio.open_connection("127.0.0.1", url.port, ssl=context, server_hostname=url.hostname)
    await visit(Http2(*streams), url)
    streams[1].close()


UPSTREAM = {"1": upstream_http1, "2": upstream_http2}
ASK = {"1": over_http1, "2": over_http2, "3": over_http3}

try:
    if sys.argv[1] == "serve":
        asyncio.run(UPSTREAM[sys.argv[2]]())
    else:
        asyncio.run(asyncio.wait_for(ASK[sys.argv[2]](*sys.argv[3:]), LIMIT_SECONDS))
except (ConnectionClosed, KeyboardInterrupt) as ended:
    print("ended", ended)
