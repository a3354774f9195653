// Serves files over HTTP/3 by quic-go, on one thread.
package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Streams that a client may have open on a connection.
const streams = 128

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "--version" {
		fmt.Println(version())
		return nil
	}
	if len(arguments) != 4 {
		return fmt.Errorf("expected ADDRESS ROOT CERTIFICATE KEY, or --version")
	}
	runtime.GOMAXPROCS(1)
	certificate, err := tls.LoadX509KeyPair(arguments[2], arguments[3])
	if err != nil {
		return err
	}
	// The library's defaults otherwise: it turns segmentation offload on, and searches for the path's MTU.
	server := http3.Server{
		Addr:       arguments[0],
		Handler:    http.FileServer(http.Dir(arguments[1])),
		TLSConfig:  http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certificate}}),
		QUICConfig: &quic.Config{MaxIncomingStreams: streams},
	}
	return server.ListenAndServe()
}

// Returns the library's version and Go's.
func version() string {
	const library = "github.com/quic-go/quic-go"
	information, ok := debug.ReadBuildInfo()
	if ok {
		for _, module := range information.Deps {
			if module.Path == library {
				return fmt.Sprintf("quic-go %s, %s", module.Version, information.GoVersion)
			}
		}
	}
	return "quic-go, version unknown"
}
