package stream_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
)

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"bobnet://files":         "bobnet://files",
		"files":                  "bobnet://files",
		"files:80":               "bobnet://files",
		"02:00:00:00:00:01:1100": "02-00-00-00-00-01:1100",
		"02:00:00:00:00:01/1100": "02-00-00-00-00-01:1100",
		"02-00-00-00-00-0a:1100": "02-00-00-00-00-0a:1100",
		"02-00-00-00-00-0A/1100": "02-00-00-00-00-0a:1100",

		"[02:00:00:00:00:01]:1100": "02-00-00-00-00-01:1100",
		"02-00-00-00-00-01":        "bobnet://02-00-00-00-00-01", // without a port, it is a name
	} {
		if a, err := stream.ParseAddr(in); err != nil || a.String() != want || a.Network() != "bobnet" {
			t.Errorf("%q: %v, %v", in, a, err)
		}
	}
	for _, in := range []string{"", ":80", "bobnet://", "02:00:00:00:00:01:99999", "02-00-00-00-00-01:99999", "02-00-00-00-00-01:", "a/b", strings.Repeat("x", 1000)} {
		var bad *net.AddrError
		if a, err := stream.ParseAddr(in); !errors.As(err, &bad) {
			t.Errorf("%q: %v, %v", in, a, err)
		}
	}
}

// TestListener checks what Accept, Dial and Close return.
func TestListener(t *testing.T) {
	h, from := open(t, stream.Config{}), open(t, stream.Config{})
	l := listen(t, h, "bobnet://stream-test-listener")
	if got := l.Addr().String(); got != "bobnet://stream-test-listener" {
		t.Error(got)
	}
	l.SetDeadline(time.Now().Add(-time.Second))
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline in the past: %v", err)
	}
	l.SetDeadline(time.Now().Add(10 * time.Millisecond))
	var timeout net.Error
	if _, err := l.Accept(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a deadline: %v", err)
	}
	l.SetDeadline(time.Time{})
	a, b, err := connect(within(t), from, l)
	if err != nil {
		t.Fatal(err)
	}
	if a.RemoteAddr().String() != b.LocalAddr().String() || b.RemoteAddr().String() != a.LocalAddr().String() {
		t.Errorf("%v to %v, %v to %v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
	}
	waiting, err := (&stream.Dialer{Host: from}).Dial(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	direct := b.LocalAddr().(stream.Addr).Addr
	direct.Port = l.Addr().(stream.Addr).Addr.Port
	l.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	if n, err := waiting.Read(make([]byte, 1)); n != 0 || err == nil { // the stream was not accepted
		t.Errorf("read: %d, %v", n, err)
	}
	if _, err := (&stream.Dialer{Host: from}).Dial(within(t), stream.Addr{Addr: direct}.String()); !errors.Is(err, vipl.ErrNoMatch) {
		t.Errorf("dial where nobody listens: %v", err)
	}
	waiting.Close()
	a.Close()
	b.Close()
}

// TestClosed checks the results of calls on a closed stream, and on a stream whose other end is
// closed.
func TestClosed(t *testing.T) {
	a, b := pair(t, stream.Config{})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	_, readErr := a.Read(make([]byte, 1))
	_, writeErr := a.Write([]byte{1})
	for _, err := range []error{readErr, writeErr, a.Close(), a.CloseWrite(), a.SetDeadline(time.Now())} {
		var op *net.OpError
		if !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) {
			t.Errorf("%v", err)
		}
	}
	if _, err := b.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read: %v", err)
	}
	var err error
	for err == nil {
		_, err = b.Write(make([]byte, 100_000))
	}
	if !errors.Is(err, syscall.EPIPE) || !strings.Contains(err.Error(), b.RemoteAddr().(stream.Addr).Addr.String()) {
		t.Errorf("write: %v", err)
	}
}

// TestHostClose: Close of a host ends its listeners and streams.
func TestHostClose(t *testing.T) {
	h, from := open(t, stream.Config{}), open(t, stream.Config{})
	l := listen(t, h, "")
	a, b, err := connect(within(t), from, l)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.Read(make([]byte, 1))
		ended <- err
	}()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := a.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the other end: %v", err)
	}
	if _, err := (&stream.ListenConfig{Host: h}).Listen(background, ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("listen: %v", err)
	}
	a.Close()
}

// TestAcceptNICEnds: a blocked Accept returns when the listener's NIC or the NIC's link is closed.
// Its error gives the reason, as does the error of the next Accept.
func TestAcceptNICEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(nic *vipl.NIC) error
		want error
	}{
		"NIC":  {(*vipl.NIC).Close, net.ErrClosed},
		"link": {func(nic *vipl.NIC) error { return seam.Link(nic).Close() }, vipl.ErrLink},
	} {
		h := open(t, stream.Config{})
		l := listen(t, h, "")
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		if err := tc.end(h.NIC()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-accepted:
			var op *net.OpError
			if !errors.Is(err, tc.want) || !errors.As(err, &op) {
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		case <-time.After(patience):
			t.Fatalf("%s: Accept goes on waiting", name)
		}
		if _, err := l.Accept(); !errors.Is(err, tc.want) {
			t.Errorf("%s, again: %v, want %v", name, err, tc.want)
		}
		l.Close()
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []stream.Config{{ReadBuffer: 1}, {WriteBuffer: stream.MaxBuffer + 1}, {Linger: -1}, {PeerTimeout: -1}} {
		if _, err := stream.Open(t.Context(), &cfg); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestURL: an address splits into host and port and can be the host of a URL. A proxy of net/http
// passes the client's address on.
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

// localOf returns the local address of a stream that h opens to an address.
func localOf(t *testing.T, h *stream.Host, to string) string {
	t.Helper()
	c, err := (&stream.Dialer{Host: h}).Dial(within(t), to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}
