package stream_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/bobnet-go/bobnet/stream"
)

// TestURL: an address splits into host and port, can be the host of a URL, and a proxy of
// net/http tells who its client is.
func TestURL(t *testing.T) {
	serve := func(h *stream.Host, handler http.Handler) string {
		l := listen(t, h, "")
		server := &http.Server{Handler: handler}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
		return l.Addr().String()
	}
	from := func(h *stream.Host) *http.Transport {
		transport := &http.Transport{DialContext: (&stream.Dialer{Host: h}).DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		return transport
	}
	back, middle, client := open(t, stream.Config{}), open(t, stream.Config{}), open(t, stream.Config{})
	behind := serve(back, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("X-Forwarded-For"))
	}))
	target, err := url.Parse("http://" + behind + "/")
	if err != nil {
		t.Fatal(err)
	}
	if host, port, err := net.SplitHostPort(behind); err != nil || target.Hostname() != host || target.Port() != port {
		t.Errorf("%s: host %s, port %s, %v; in a URL %s and %s", behind, host, port, err, target.Hostname(), target.Port())
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = from(middle)
	front := serve(middle, proxy)

	c := http.Client{Transport: from(client)}
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, "http://"+front+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	want, _, _ := net.SplitHostPort(localOf(t, client, front))
	if err != nil || res.StatusCode != http.StatusOK || string(got) != want {
		t.Errorf("%s: X-Forwarded-For is %q, want %q; %v", res.Status, got, want, err)
	}
}

// localOf returns the address that h has in a stream to an address.
func localOf(t *testing.T, h *stream.Host, to string) string {
	t.Helper()
	c, err := (&stream.Dialer{Host: h}).Dial(within(t), to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}
