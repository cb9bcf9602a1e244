package stream_test

import (
	"net"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/net/nettest"
)

// maker returns what nettest asks for pipes: each is a new stream between the hosts.
func maker(t *testing.T, from *stream.Host, l *stream.Listener) nettest.MakePipe {
	return func() (a, b net.Conn, stop func(), err error) {
		asks, takes, err := connect(within(t), from, l)
		if err != nil {
			return nil, nil, nil, err
		}
		return asks, takes, func() { asks.Close(); takes.Close() }, nil
	}
}

// TestConn is the suite that every net.Conn passes.
func TestConn(t *testing.T) {
	t.Run("shm", func(t *testing.T) {
		l := listen(t, open(t, stream.Config{}), "")
		nettest.TestConn(t, maker(t, open(t, stream.Config{}), l))
	})
	t.Run("one NIC", func(t *testing.T) {
		h := open(t, stream.Config{})
		nettest.TestConn(t, maker(t, h, listen(t, h, "")))
	})
	t.Run("veth", func(t *testing.T) {
		from, to := vethHosts(t, stream.Config{})
		nettest.TestConn(t, maker(t, from, listen(t, to, "bobnet://veth")))
	})
}

// vethHosts returns hosts in two namespaces that a pair of veth joins.
func vethHosts(t testing.TB, cfg stream.Config) (a, b *stream.Host) {
	t.Helper()
	pair := vethtest.New(t, 9000)
	hosts := [2]*stream.Host{}
	for i := range hosts {
		cfg := cfg
		err := pair.In(i, func() (err error) {
			cfg.NIC, err = vipl.Open(&vipl.Config{Interface: vethtest.Name})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		nic := cfg.NIC
		t.Cleanup(func() { nic.Close() })
		hosts[i] = open(t, cfg)
	}
	return hosts[0], hosts[1]
}
