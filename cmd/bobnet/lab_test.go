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
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/lab"
)

// TestLabMetrics: what ranks serve inside their namespaces is readable outside,
// also that of two processes in one.
func TestLabMetrics(t *testing.T) {
	needLab(t)
	l, err := lab.New(t.Context(), lab.Config{N: 2, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const port = 9464
	places := placesOf([]int{0, 1, 0, 1}, l.Host, port)
	const serving = 3 // the last process serves no metrics
	for i, p := range places[:serving] {
		serveProcess(t, l, i, p)
	}
	tree := http.NewServeMux()
	addMetrics(tree, l, places)
	outside := httptest.NewServer(tree)
	defer outside.Close()

	for i := range serving {
		want := fmt.Sprintf("process %d: /metrics\n", i)
		if got := get(t, fmt.Sprintf("%s/rank/%d/metrics", outside.URL, i)); got != want {
			t.Errorf("metrics of process %d are %q, want %q", i, got, want)
		}
	}
	if got, want := get(t, outside.URL+"/rank/3/metrics"), "rank 1 serves no metrics"; !strings.HasPrefix(got, want) {
		t.Errorf("metrics of a rank that serves none are %q, want %q", got, want)
	}
	var got []target
	if err := json.Unmarshal([]byte(get(t, outside.URL+"/targets")), &got); err != nil {
		t.Fatal(err)
	}
	if want := targets(len(places), outside.Listener.Addr().String()); !reflect.DeepEqual(got, want) {
		t.Errorf("targets are %v, want %v", got, want)
	}
	if page := get(t, outside.URL+"/"); !strings.Contains(page, `rank 1: <a href="/rank/1/metrics">`) || !strings.Contains(page, "/rank/2/debug/bobnet") {
		t.Errorf("the index does not link to the processes:\n%s", page)
	}
	index := get(t, outside.URL+"/metrics")
	if !strings.Contains(index, "# rank 0: /rank/2/metrics\n") {
		t.Errorf("no line for the third process in\n%s", index)
	}
	for line := range strings.Lines(index) {
		if !strings.HasPrefix(line, "# ") {
			t.Errorf("%q is no comment of Prometheus's text format", line)
		}
	}
}

// serveProcess starts a server at a place, as process i would.
func serveProcess(t *testing.T, l *lab.Lab, i int, at place) {
	t.Helper()
	var listener net.Listener
	err := l.Exec(at.Rank, func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", at.port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "process %d: %s\n", i, r.URL.Path)
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
