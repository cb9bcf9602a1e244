package metrics

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server serves /metrics and /debug/bobnet over HTTP until it is closed.
type Server struct {
	http     http.Server
	listener net.Listener
}

// Serve starts to serve what c collects, and the Go runtime's own metrics, at
// addr ("host:port", ":port"; port 0 picks one): /metrics for Prometheus and
// /debug/bobnet, as Collector.DumpHandler has it, for people.
func Serve(addr string, c *Collector) (*Server, error) {
	registry := prometheus.NewRegistry()
	for _, each := range []prometheus.Collector{c, collectors.NewGoCollector()} {
		if err := registry.Register(each); err != nil {
			return nil, fmt.Errorf("metrics: register: %w", err)
		}
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: serve at %q: %w: choose another port", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/bobnet", c.DumpHandler())
	s := &Server{http: http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, listener: listener}
	go s.http.Serve(listener)
	return s, nil
}

// Addr returns the address that the server listens at.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops the server at once.
func (s *Server) Close() error { return s.http.Close() }
