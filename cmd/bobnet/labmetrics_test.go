package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/bobnet-go/bobnet/internal/lab"
)

// TestLabMetrics: what ranks serve inside their namespaces is readable outside.
func TestLabMetrics(t *testing.T) {
	needLab(t)
	l, err := lab.New(t.Context(), lab.Config{N: 2, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const port = 9464
	for rank := range l.Size() {
		serveRank(t, l, rank, port)
	}
	outside := httptest.NewServer(metricsHandler(l, port))
	defer outside.Close()

	for rank := range l.Size() {
		want := fmt.Sprintf("rank %d: /metrics\n", rank)
		if got := get(t, fmt.Sprintf("%s/rank/%d/metrics", outside.URL, rank)); got != want {
			t.Errorf("metrics of rank %d are %q, want %q", rank, got, want)
		}
	}
	var got []target
	if err := json.Unmarshal([]byte(get(t, outside.URL+"/targets")), &got); err != nil {
		t.Fatal(err)
	}
	if want := targets(2, outside.Listener.Addr().String()); !reflect.DeepEqual(got, want) {
		t.Errorf("targets are %v, want %v", got, want)
	}
}

// serveRank starts a server in rank's namespace, as a rank would.
func serveRank(t *testing.T, l *lab.Lab, rank, port int) {
	t.Helper()
	var listener net.Listener
	err := l.Exec(rank, func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "rank %d: %s\n", rank, r.URL.Path)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
