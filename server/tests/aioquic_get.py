"""GETs a URL over HTTP/3 with aioquic and prints the status, the length of the body and its SHA-256.

With a TOKEN file, the connection begins with the token of an earlier one that the file holds, and the file holds the token for the
next one afterwards (NEW_TOKEN).

usage: aioquic_get.py URL CERTIFICATE [TOKEN [ADDRESS]]; TOKEN may be empty
"""

import asyncio
import hashlib
import sys
from pathlib import Path
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

LIMIT_SECONDS = 240


class Getter(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.status = None
        self.length = 0
        self.digest = hashlib.sha256()
        self.done = asyncio.get_running_loop().create_future()

    async def get(self, url):
        target = (url.path or "/") + ("?" + url.query if url.query else "")
        stream = self._quic.get_next_available_stream_id()
        head = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", url.netloc.encode()),
            (b":path", target.encode()),
        ]
        self.http.send_headers(stream, head, end_stream=True)
        self.transmit()
        await self.done

    def quic_event_received(self, event):
        if isinstance(event, (ConnectionTerminated, StreamReset)) and not self.done.done():
            self.done.set_exception(RuntimeError(f"broke off after {self.length} bytes: {event}"))
        for found in self.http.handle_event(event):
            if isinstance(found, HeadersReceived):
                # Interim responses come first; trailers have no status.
                self.status = dict(found.headers).get(b":status", self.status)
            if isinstance(found, DataReceived):
                self.length += len(found.data)
                self.digest.update(found.data)
            ended = isinstance(found, (DataReceived, HeadersReceived)) and found.stream_ended
            if ended and not self.done.done():
                self.done.set_result(None)


async def main(text, certificate, kept=None, address="127.0.0.1"):
    url = urlsplit(text)
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=H3_ALPN,
        server_name=url.hostname,
        max_data=16 << 20,
        max_stream_data=16 << 20,
    )
    configuration.load_verify_locations(certificate)
    kept = Path(kept) if kept else None
    if kept and kept.exists():
        configuration.token = kept.read_bytes()
        kept.unlink()
    async with connect(
        address,
        url.port,
        configuration=configuration,
        create_protocol=Getter,
        token_handler=kept and kept.write_bytes,
    ) as getter:
        await getter.get(url)
        print(getter.status.decode(), getter.length, getter.digest.hexdigest())


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), LIMIT_SECONDS))
