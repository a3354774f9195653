"""WebSocket by programs that share nothing with the server: `websockets` as an upstream and as a client of HTTP/1.1, and aioquic
as a client of HTTP/3, with `websockets` for the frames.

usage: websocket.py serve                      an upstream, which prints its port and echoes messages; /no is refused
       websocket.py ask VERSION URL CERTIFICATE  a client, which prints what it has seen
"""

import asyncio
import ssl
import sys
from http import HTTPStatus
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect as connect_quic
from aioquic.h3.connection import H3_ALPN, H3Connection, Setting
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode
from websockets.protocol import CLIENT, OPEN, Protocol, State

LIMIT_SECONDS = 120
MESSAGES = ["hello", bytes(range(256)) * 4096, "", "x" * 70_000]
CLOSED = 4321


async def echo(socket):
    try:
        async for message in socket:
            await socket.send(message)
    except ConnectionClosed:
        # The client's code is no error of the upstream.
        pass


def refuse(connection, request):
    if request.path == "/no":
        return connection.respond(HTTPStatus.FORBIDDEN, "not here\n")
    return None


async def upstream():
    async with serve(echo, "127.0.0.1", 0, process_request=refuse, subprotocols=["echo"], max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


async def over_http1(url, certificate):
    context = ssl.create_default_context(cafile=certificate)
    try:
        async with connect(url, ssl=context, subprotocols=["echo"], max_size=None, proxy=None) as socket:
            print("101", socket.subprotocol)
            for message in MESSAGES:
                await socket.send(message)
                print("echo", await socket.recv() == message)
            await socket.close(CLOSED)
            print("closed", socket.close_code)
    except InvalidStatus as refused:
        print(refused.response.status_code, refused.response.body.decode().strip())


class Http3(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.seen = asyncio.Queue()

    def quic_event_received(self, event):
        for found in self.http.handle_event(event):
            self.seen.put_nowait(found)

    async def settings(self):
        while self.http.received_settings is None:
            await asyncio.sleep(0.01)
        return self.http.received_settings

    def open(self, url):
        stream = self._quic.get_next_available_stream_id()
        head = [
            (b":method", b"CONNECT"),
            (b":protocol", b"websocket"),
            (b":scheme", b"https"),
            (b":authority", url.netloc.encode()),
            (b":path", url.path.encode()),
            (b"sec-websocket-version", b"13"),
            (b"sec-websocket-protocol", b"echo"),
        ]
        self.http.send_headers(stream, head)
        self.transmit()
        return stream


async def over_http3(text, certificate):
    url = urlsplit(text)
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name=url.hostname)
    configuration.load_verify_locations(certificate)
    async with connect_quic("127.0.0.1", url.port, configuration=configuration, create_protocol=Http3) as client:
        print("extended connect", (await client.settings()).get(Setting.ENABLE_CONNECT_PROTOCOL))
        stream = client.open(url)
        head = await client.seen.get()
        assert isinstance(head, HeadersReceived), head
        fields = dict(head.headers)
        status = int(fields[b":status"])
        if status != 200:
            body = b""
            while not head.stream_ended:
                head = await client.seen.get()
                body += head.data
            print(status, body.decode().strip())
            return
        print(status, fields.get(b"sec-websocket-protocol", b"").decode())
        frames = Protocol(CLIENT, state=OPEN, max_size=None)

        def send(last=False):
            for part in frames.data_to_send():
                client.http.send_data(stream, part, end_stream=False)
            if last:
                client.http.send_data(stream, b"", end_stream=True)
            client.transmit()

        async def take():
            found = await client.seen.get()
            assert isinstance(found, DataReceived), found
            frames.receive_data(found.data)
            if found.stream_ended:
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
            send()
            frame = await receive()
            received = frame.data
            while not frame.fin:
                frame = await receive()
                assert frame.opcode is Opcode.CONT, frame
                received += frame.data
            sent = message.encode() if isinstance(message, str) else message
            print("echo", received == sent)
        frames.send_close(CLOSED)
        send(last=True)
        await receive()
        # The code is known once the stream has ended.
        while frames.state is not State.CLOSED:
            await take()
        print("closed", frames.close_code)


ASK = {"1": over_http1, "3": over_http3}

try:
    if sys.argv[1] == "serve":
        asyncio.run(upstream())
    else:
        asyncio.run(asyncio.wait_for(ASK[sys.argv[2]](*sys.argv[3:]), LIMIT_SECONDS))
except (ConnectionClosed, KeyboardInterrupt) as ended:
    print("ended", ended)
