"""Application that a browser visits in a test: pages that report what the browser saw.

    browser.py

Serves HTTP/1.1 on a free port of 127.0.0.1, prints the port, then each report that a page sends, as a line of JSON.
"""

import asyncio
import base64
import hashlib
import sys

FIRST = b"""<!doctype html><title>first</title><link rel="icon" href="data:,">
<script src="/visit/common.js"></script><script>
const report = { first: performance.getEntriesByType("navigation")[0].nextHopProtocol };
remember(report);
location.replace("/visit/second");
</script>
"""
SECOND = b"""<!doctype html><title>second</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/visit/style.css"><script src="/visit/common.js"></script><script>
const report = JSON.parse(sessionStorage.report);
const visit = performance.getEntriesByType("navigation")[0];
report.visits = (report.visits || 0) + 1;
report.second = visit.nextHopProtocol;
addEventListener("load", async () => {
    // A browser may race both protocols for some visits.
    if (report.second != "h3" && report.visits < 20) {
        remember(report);
        setTimeout(() => location.replace("/visit/second"), 200);
        return;
    }
    const style = performance.getEntriesByName(new URL("/visit/style.css", location))[0];
    report.style = style && style.initiatorType;
    report.echo = await echo("hello");
    const text = await (await fetch("/visit/text")).text();
    const sizes = performance.getEntriesByName(new URL("/visit/text", location))[0];
    report.text_length = text.length;
    report.text_encoded = sizes.encodedBodySize;
    const body = new Uint8Array(1000000).fill(7);
    report.upload = await (await fetch("/visit/upload", { method: "POST", body })).text();
    await fetch("/visit/report", { method: "POST", body: JSON.stringify(report) });
});
</script>
"""
SOCKET = b"""<!doctype html><title>socket</title><link rel="icon" href="data:,">
<script src="/visit/common.js"></script><script>
addEventListener("load", async () => {
    const report = { echo: await echo("hello") };
    await fetch("/visit/report", { method: "POST", body: JSON.stringify(report) });
});
</script>
"""
COMMON = b"""
function remember(report) { sessionStorage.report = JSON.stringify(report); }
function echo(text) {
    return new Promise(resolve => {
        const socket = new WebSocket(`wss://${location.host}/visit/echo`);
        socket.onopen = () => socket.send(text);
        socket.onmessage = message => { resolve(message.data); socket.close(); };
        socket.onerror = () => resolve("no WebSocket");
    });
}
"""
HTML = "content-type: text/html"
HINT = b"HTTP/1.1 103 Early Hints\r\nlink: </visit/style.css>; rel=preload; as=style\r\n\r\n"


def response(body, *fields):
    head = ["HTTP/1.1 200 OK", f"content-length: {len(body)}", *fields]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def echo(fields, reader, writer):
    """Returns the first message of a WebSocket to its sender (RFC 6455)."""
    key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    head = ["HTTP/1.1 101 Switching Protocols", "upgrade: websocket", "connection: upgrade", f"sec-websocket-accept: {accept}"]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n")
    kind, length = await reader.readexactly(2)
    mask = await reader.readexactly(4)
    text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(await reader.readexactly(length & 0x7F)))
    writer.write(bytes([kind, len(text)]) + text)
    await writer.drain()
    await reader.read()


async def answer(method, path, fields, body, writer):
    if path == "/visit/first":
        writer.write(response(FIRST, HTML))
    elif path == "/visit/socket":
        writer.write(response(SOCKET, HTML))
    elif path == "/visit/second":
        writer.write(HINT)
        await writer.drain()
        # Time in which the browser can act on the hint.
        await asyncio.sleep(0.3)
        writer.write(response(SECOND, HTML))
    elif path == "/visit/common.js":
        writer.write(response(COMMON, "content-type: text/javascript"))
    elif path == "/visit/style.css":
        writer.write(response(b"body { color: green }", "content-type: text/css", "cache-control: max-age=60"))
    elif path == "/visit/text":
        writer.write(response(b"a line of text\n" * 10000, "content-type: text/plain"))
    elif path == "/visit/upload":
        writer.write(response(str(sum(body)).encode()))
    elif path == "/visit/report":
        print(body.decode(), flush=True)
        writer.write(response(b""))
    else:
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")


async def serve(reader, writer):
    try:
        while line := await reader.readline():
            method, path, _ = line.decode().split(" ", 2)
            fields = {}
            while (line := await reader.readline()) not in (b"\r\n", b""):
                name, _, value = line.decode().partition(":")
                fields[name.lower()] = value.strip()
            if path == "/visit/echo":
                return await echo(fields, reader, writer)
            if fields.get("transfer-encoding") == "chunked":
                body = b""
                while size := int(await reader.readline(), 16):
                    body += await reader.readexactly(size)
                    await reader.readline()
                await reader.readline()
            else:
                body = await reader.readexactly(int(fields.get("content-length", 0)))
            await answer(method, path, fields, body, writer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with the test.
    await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
