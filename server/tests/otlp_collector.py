"""A collector of OpenTelemetry that shares nothing with the server: it decodes OTLP by the protobuf classes of `opentelemetry-proto`.

It prints its port, and each span that it receives as a JSON object in a line.

usage: otlp_collector.py
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status


def table(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def described(span, resource):
    return {
        "name": span.name,
        "kind": Span.SpanKind.Name(span.kind),
        "trace": span.trace_id.hex(),
        "span": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "state": span.trace_state,
        "nanos": span.end_time_unix_nano - span.start_time_unix_nano,
        "start": span.start_time_unix_nano,
        "status": Status.StatusCode.Name(span.status.code),
        "attributes": table(span.attributes),
        "resource": resource,
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        well = self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
        if not well or self.headers["x-token"] != "secret":
            self.send_error(400)
            return
        for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = table(batch.resource.attributes)
            for scope in batch.scope_spans:
                for span in scope.spans:
                    print(json.dumps(described(span, resource)), flush=True)
        response = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(response)))
        self.end_headers()
        self.wfile.write(response)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"port={server.server_port}", flush=True)
server.serve_forever()
