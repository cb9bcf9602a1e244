package stream_test

import (
	"net"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/net/nettest"
)

// maker returns nettest's function for making pipes. Each pipe is a new stream between the hosts.
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
		from, to := vethHosts(t, stream.Config{}, nil)
		nettest.TestConn(t, maker(t, from, listen(t, to, "bobnet://veth")))
	})
	t.Run("sealed", func(t *testing.T) {
		from, to := vethHosts(t, stream.Config{}, aKey)
		nettest.TestConn(t, maker(t, from, listen(t, to, "bobnet://sealed")))
		for _, h := range []*stream.Host{from, to} {
			s, sealed := h.NIC().SealStats() // a repeated message of the handshake may have been dropped
			if !sealed || s.Sealed == 0 || s.Opened == 0 || s.Unsealed+s.OtherKey+s.Altered+s.Malformed > 0 {
				t.Errorf("%+v, sealed: %v", s, sealed)
			}
		}
	})
}

// aKey is a key of sealed frames.
var aKey = seal.Fixed(seal.Key{1, 31: 2})

// vethHosts returns hosts in two namespaces that a pair of veth joins, with a key if it is not nil.
func vethHosts(t testing.TB, cfg stream.Config, key seal.Source) (a, b *stream.Host) {
	t.Helper()
	pair := vethtest.New(t, 9000)
	hosts := [2]*stream.Host{}
	for i := range hosts {
		cfg := cfg
		err := pair.In(i, func() (err error) {
			cfg.NIC, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Key: key})
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
