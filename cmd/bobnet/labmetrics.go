package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"

	"github.com/bobnet-go/bobnet/internal/lab"
)

// envMetrics tells a rank at which address to serve its metrics.
const envMetrics = "BOBNET_METRICS"

// serveMetrics makes the metrics of the ranks, which serve them on the same
// port inside their namespaces, readable from outside on addr:
//
//	/rank/0/metrics   what rank 0 says
//	/targets          all of them, for Prometheus's http_sd_configs
//
// It returns what goes into the ranks' environment and the server to close.
func serveMetrics(l *lab.Lab, addr string) (env string, server *http.Server, err error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("--metrics: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	server = &http.Server{Handler: metricsHandler(l, uint16(port))}
	go server.Serve(listener)
	slog.Info("serving metrics", "targets", fmt.Sprintf("http://%s/targets", listener.Addr()))
	return fmt.Sprintf("%s=:%d", envMetrics, port), server, nil
}

// metricsHandler returns the tree that serveMetrics documents.
func metricsHandler(l *lab.Lab, port uint16) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(targets(l.Size(), r.Host))
	})
	for rank := range l.Size() {
		base := "/rank/" + strconv.Itoa(rank)
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", l.Addr(rank), port)})
		proxy.Transport = &http.Transport{
			DisableKeepAlives: true, // an open socket would outlive the lab's namespace
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return l.Dial(ctx, rank, port)
			},
		}
		mux.Handle("GET "+base+"/", http.StripPrefix(base, proxy))
	}
	return mux
}

// target is one entry of Prometheus's HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targets lists size ranks that can be reached through host.
func targets(size int, host string) []target {
	list := make([]target, size)
	for rank := range list {
		list[rank] = target{
			Targets: []string{host},
			Labels: map[string]string{
				"__metrics_path__": fmt.Sprintf("/rank/%d/metrics", rank),
				"rank":             strconv.Itoa(rank),
			},
		}
	}
	return list
}
