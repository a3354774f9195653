"""Requests URLs over HTTP/3 with aioquic until its standard input ends, on connections that are opened again and again, and prints
how many responses came. Ends with an error at the first request that fails. Certificates are not verified: they change.

usage: aioquic_load.py URL...
"""

import asyncio
import ssl
import sys
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

CONNECTIONS = 4
ROUNDS_PER_CONNECTION = 25
REQUEST_LIMIT_SECONDS = 60


class Getter(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.open = {}

    async def get(self, url):
        stream = self._quic.get_next_available_stream_id()
        head = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", url.netloc.encode()),
            (b":path", url.path.encode()),
        ]
        done = asyncio.get_running_loop().create_future()
        self.open[stream] = (done, {})
        self.http.send_headers(stream, head, end_stream=True)
        self.transmit()
        status = await asyncio.wait_for(done, REQUEST_LIMIT_SECONDS)
        if status != b"200":
            raise RuntimeError(f"{status} for {url.geturl()}")

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for done, _ in self.open.values():
                done.set_exception(RuntimeError(f"the connection ended: {event}"))
            self.open.clear()
        if isinstance(event, StreamReset) and event.stream_id in self.open:
            self.open.pop(event.stream_id)[0].set_exception(RuntimeError(f"reset: {event}"))
        for found in self.http.handle_event(event):
            done, seen = self.open.get(getattr(found, "stream_id", None), (None, None))
            if done is None:
                continue
            if isinstance(found, HeadersReceived):
                seen.update(found.headers)
            if isinstance(found, (DataReceived, HeadersReceived)) and found.stream_ended:
                del self.open[found.stream_id]
                done.set_result(seen[b":status"])


async def load(urls, stopped):
    responses = 0
    while not stopped.is_set():
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=H3_ALPN,
            server_name=urls[0].hostname,
            verify_mode=ssl.CERT_NONE,
        )
        address = ("127.0.0.1", urls[0].port)
        async with connect(*address, configuration=configuration, create_protocol=Getter) as getter:
            for _ in range(ROUNDS_PER_CONNECTION):
                await asyncio.gather(*(getter.get(url) for url in urls))
                responses += len(urls)
                if stopped.is_set():
                    break
    return responses


async def main(urls):
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stopped.set)
    loads = [load(urls, stopped) for _ in range(CONNECTIONS)]
    print(sum(await asyncio.gather(*loads)))


asyncio.run(main([urlsplit(url) for url in sys.argv[1:]]))
