package admission

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestPeerOf: on one host a peer is a user, by each kind of connection.
func TestPeerOf(t *testing.T) {
	for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"tcp", ":0"}, {"unix", filepath.Join(t.TempDir(), "sock")}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil && at[1] == "[::1]:0" {
			continue // no IPv6 here
		}
		if err != nil {
			t.Fatal(err)
		}
		to := l.Addr().String()
		if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
			to = fmt.Sprintf("127.0.0.1:%d", a.Port)
		}
		c, err := net.Dial(at[0], to)
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := PeerOf(s), fmt.Sprintf("user %d", os.Getuid()); got != want {
			t.Errorf("%v: the peer is %q, want %q", at, got, want)
		}
		c.Close()
		s.Close()
		l.Close()
	}
}
