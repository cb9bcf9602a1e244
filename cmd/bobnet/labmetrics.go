package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/metrics"
)

// envMetrics tells a rank at which address to serve its metrics.
const envMetrics = "BOBNET_METRICS"

// place is where a process of a lab serves its metrics: a port inside the
// namespace of a rank.
type place struct {
	Rank int
	port uint16
}

// env is the place as the process gets it.
func (p place) env() string { return fmt.Sprintf("%s=127.0.0.1:%d", envMetrics, p.port) }

// serveMetrics makes the metrics of processes in a lab, given by the ranks whose
// namespaces they are in, readable from outside on addr:
//
//	/                 an index of them, with links
//	/metrics          the same as comments, for who scrapes the lab as a program
//	/rank/0/metrics   what the first of them says
//	/rank/0/          its own index
//	/targets          all of them, for Prometheus's http_sd_configs
//
// It returns where each is to serve them, and the server to close.
func serveMetrics(l *lab.Lab, addr string, ranks []int) ([]place, *metrics.Server, error) {
	tree := http.NewServeMux()
	server, err := metrics.ServeHandler(addr, tree)
	if err != nil {
		return nil, nil, fmt.Errorf("--metrics: %w", err)
	}
	places := placesOf(ranks, l.Host, server.Addr().(*net.TCPAddr).Port)
	addMetrics(tree, l, places)
	slog.Info("serving metrics", "targets", fmt.Sprintf("http://%s/targets", server.Addr()))
	return places, server, nil
}

// placesOf gives each process the port that is served outside, which is free in
// a new namespace, or the next one if another process of its namespace, which host
// tells of its rank, has that.
func placesOf(ranks []int, host func(rank int) int, port int) []place {
	places := make([]place, len(ranks))
	before := map[int]int{}
	for i, rank := range ranks {
		places[i] = place{rank, uint16((port-1+before[host(rank)])%math.MaxUint16 + 1)}
		before[host(rank)]++
	}
	return places
}

// addMetrics adds to mux the tree that serveMetrics documents.
func addMetrics(mux *http.ServeMux, l *lab.Lab, places []place) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		indexPage.Execute(w, places) // if it fails the client is gone
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		for i, p := range places {
			fmt.Fprintf(w, "# rank %d: /rank/%d/metrics\n", p.Rank, i)
		}
		fmt.Fprint(w, "# all of them, for http_sd_configs: /targets\n")
	})
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(targets(len(places), r.Host))
	})
	for i, p := range places {
		base := "/rank/" + strconv.Itoa(i)
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", l.Addr(p.Rank), p.port)})
		proxy.Transport = &http.Transport{
			DisableKeepAlives: true, // an open socket would outlive the lab's namespace
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return l.Dial(ctx, p.Rank, p.port)
			},
		}
		mux.Handle("GET "+base+"/", http.StripPrefix(base, proxy))
	}
}

// indexPage lists the processes of a lab.
var indexPage = template.Must(template.New("index").Parse(`<!DOCTYPE html>
<title>Bobnet lab</title>
<h1>Bobnet lab</h1>
<ul>
{{range $i, $p := .}}<li>rank {{$p.Rank}}: <a href="/rank/{{$i}}/metrics">metrics</a>, <a href="/rank/{{$i}}/debug/bobnet">what it waits for</a></li>
{{end}}</ul>
<p><a href="/targets">targets</a> for Prometheus</p>
`))

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
