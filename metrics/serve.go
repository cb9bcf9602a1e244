package metrics

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// timeouts disconnect slow clients. It is a variable for its test.
var timeouts = struct{ header, read, write, idle time.Duration }{
	header: 5 * time.Second,
	read:   10 * time.Second,
	write:  30 * time.Second, // a dump waits dumpPatience for each stuck NIC
	idle:   2 * time.Minute,  // longer than the usual interval between scrapes
}

const maxHeader = 16 << 10 // bytes of a request's header

// Limits of connections, and of concurrent requests. A peer is a user of this host, or an address.
const (
	peerConns, allConns       = 32, 256
	peerRequests, allRequests = 4, 16
)

// Server is an HTTP server for metrics and dumps.
type Server struct {
	http     http.Server
	listener net.Listener
}

// Serve starts to serve the metrics of c and of the Go runtime at addr. The pages are /metrics for
// Prometheus, /debug/bobnet with the dump of Collector.DumpHandler, and / with links to both.
//
// An addr without a host, such as ":9464", serves localhost only, because a dump shows which peers
// communicate. "0.0.0.0:9464", or the address of one interface, also serves other hosts. Port 0
// selects a free one.
func Serve(addr string, c *Collector) (*Server, error) {
	registry := prometheus.NewRegistry()
	for _, each := range []prometheus.Collector{c, collectors.NewGoCollector()} {
		if err := registry.Register(each); err != nil {
			return nil, fmt.Errorf("metrics: register: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/bobnet", c.DumpHandler())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "Bobnet\n\n/metrics       for Prometheus\n/debug/bobnet  what every channel waits for; ?format=json\n")
	})
	return ServeHandler(addr, mux)
}

// ServeHandler serves h with the rules for addresses, the timeouts and the limits of Serve. It
// closes excess connections of a peer, and answers excess requests with 503.
func ServeHandler(addr string, h http.Handler) (*Server, error) {
	if strings.HasPrefix(addr, ":") {
		addr = "localhost" + addr
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: serve at %q: %w (choose another port, or an address of this host)", addr, err)
	}
	s := &Server{listener: listener, http: http.Server{
		Handler: limitRequests(h), ConnContext: withPeer, ReadHeaderTimeout: timeouts.header, ReadTimeout: timeouts.read,
		WriteTimeout: timeouts.write, IdleTimeout: timeouts.idle, MaxHeaderBytes: maxHeader,
	}}
	go s.http.Serve(&limitedListener{listener, admission.New[string](admission.Limits{Conns: peerConns, AllConns: allConns})})
	return s, nil
}

// Addr returns the address at which the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops the server at once.
func (s *Server) Close() error { return s.http.Close() }

// limitedListener closes connections beyond the limits.
type limitedListener struct {
	net.Listener
	gate *admission.Gate[string]
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := admission.PeerOf(conn)
		if l.gate.Enter(peer) {
			return &limitedConn{Conn: conn, peer: peer, gate: l.gate}, nil
		}
		conn.Close()
	}
}

// limitedConn is a connection that the gate counts until it is closed.
type limitedConn struct {
	net.Conn
	peer string
	gate *admission.Gate[string]
	once sync.Once
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.gate.Leave(c.peer) })
	return err
}

// peerKey is the key of a request's peer in its context.
type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*limitedConn); ok {
		return context.WithValue(ctx, peerKey{}, c.peer)
	}
	return ctx
}

// limitRequests returns h with a limit on concurrent requests.
func limitRequests(h http.Handler) http.Handler {
	gate := admission.New[string](admission.Limits{Conns: peerRequests, AllConns: allRequests})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, _ := r.Context().Value(peerKey{}).(string)
		if !gate.Enter(peer) {
			http.Error(w, "too many requests at once: try again later", http.StatusServiceUnavailable)
			return
		}
		defer gate.Leave(peer)
		h.ServeHTTP(w, r)
	})
}
