package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"

	"github.com/bobnet-go/bobnet/internal/lab"
)

// envMetrics tells a rank at which address to serve its metrics.
const envMetrics = "BOBNET_METRICS"

// place is where a process of a lab serves its metrics: a port inside the
// namespace of a rank.
type place struct {
	rank int
	port uint16
}

// env is the place as the process gets it.
func (p place) env() string { return fmt.Sprintf("%s=:%d", envMetrics, p.port) }

// serveMetrics makes the metrics of processes in a lab, given by the ranks whose
// namespaces they are in, readable from outside on addr:
//
//	/rank/0/metrics   what the first of them says
//	/targets          all of them, for Prometheus's http_sd_configs
//
// It returns where each is to serve them, and the server to close.
func serveMetrics(l *lab.Lab, addr string, ranks []int) ([]place, *http.Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("--metrics: %w", err)
	}
	places := placesOf(ranks, listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: metricsHandler(l, places)}
	go server.Serve(listener)
	slog.Info("serving metrics", "targets", fmt.Sprintf("http://%s/targets", listener.Addr()))
	return places, server, nil
}

// placesOf gives each process the port that is served outside, which is free in
// a new namespace, or the next one if another process of its rank has that.
func placesOf(ranks []int, port int) []place {
	places := make([]place, len(ranks))
	before := map[int]int{}
	for i, rank := range ranks {
		places[i] = place{rank, uint16((port-1+before[rank])%math.MaxUint16 + 1)}
		before[rank]++
	}
	return places
}

// metricsHandler returns the tree that serveMetrics documents.
func metricsHandler(l *lab.Lab, places []place) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(targets(len(places), r.Host))
	})
	for i, p := range places {
		base := "/rank/" + strconv.Itoa(i)
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", l.Addr(p.rank), p.port)})
		proxy.Transport = &http.Transport{
			DisableKeepAlives: true, // an open socket would outlive the lab's namespace
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return l.Dial(ctx, p.rank, p.port)
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

// targets lists size processes that can be reached through host.
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
