package metrics_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/metrics"
)

// TestServeIndex: / says what is served, and nothing else is.
func TestServeIndex(t *testing.T) {
	server, err := metrics.Serve("127.0.0.1:0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for path, want := range map[string]int{"/": http.StatusOK, "/elsewhere": http.StatusNotFound} {
		resp, err := http.Get("http://" + server.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s answers %s, want %d", path, resp.Status, want)
		}
		if text := string(body); want == http.StatusOK && (!strings.Contains(text, "/metrics") || !strings.Contains(text, "/debug/bobnet")) {
			t.Errorf("the index is %q", text)
		}
	}
}

// TestServeLocal: an address without a host is this host's alone.
func TestServeLocal(t *testing.T) {
	server, err := metrics.Serve(":0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if at := server.Addr().(*net.TCPAddr); !at.IP.IsLoopback() || at.Port == 0 {
		t.Errorf("it serves at %v, want a port of localhost", at)
	}
	told, err := metrics.Serve("0.0.0.0:0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	if at := told.Addr().(*net.TCPAddr); !at.IP.IsUnspecified() {
		t.Errorf("it serves at %v although it was told all addresses", at)
	}
}

// TestServeSlowClients: who does not end its request is cut off, in the header as
// well as before it.
func TestServeSlowClients(t *testing.T) {
	metrics.ShortTimeouts(t, 10*time.Millisecond)
	server, err := metrics.Serve("127.0.0.1:0", metrics.NewCollector(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, said := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\nX-Half: ", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, said)
		if _, err := io.ReadAll(conn); err != nil { // ends when the server does
			t.Errorf("after %q: %v", said, err)
		}
		conn.Close()
	}
}
