package vipl_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// TestWays opens NICs with AF_XDP sends on and off: the links do as they are told,
// and a message arrives either way.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		name string
		xdp  ring.Choice
	}{
		{"XDP", ring.On},
		{"Plain", ring.Off},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			var nics [2]*vipl.NIC
			for side := range nics {
				cfg := &vipl.Config{Interface: vethtest.Name, XDP: c.xdp}
				err := p.In(side, func() (err error) { nics[side], err = vipl.Open(t.Context(), cfg); return err })
				if errors.Is(err, unix.EAFNOSUPPORT) {
					t.Skip("needs a kernel with AF_XDP (CONFIG_XDP_SOCKETS)")
				} else if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nics[side].Close() })
			}
			a, b := join(t, nics, nil)
			f := newFlow(t, a, b, 50, 20_000, 1)
			within(t, "an exchange", func() error { return all(f.send, f.receive) })
			for _, n := range nics {
				s := seam.Link(n).Stats()
				if got, want := s.TxXDP > 0, c.xdp == ring.On; got != want {
					t.Errorf("%d of %d frames went through AF_XDP, want some: %t", s.TxXDP, s.TxFrames, want)
				}
			}
		})
	}
}

// TestWaysOfOtherDrivers wants what they do not have to be refused and to be left
// off without a word.
func TestWaysOfOtherDrivers(t *testing.T) {
	for _, driver := range []string{"packet", "udp", "shm", "myrinet"} {
		for _, cfg := range []vipl.Config{{XDP: ring.On}, {Long: ring.On}} {
			cfg.Driver = driver
			if _, err := vipl.Open(t.Context(), &cfg); !errors.Is(err, vipl.ErrArgument) {
				t.Errorf("%s, XDP %v, Long %v: %v, want ErrArgument", driver, cfg.XDP, cfg.Long, err)
			}
		}
	}
	n, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm", XDP: ring.Off, Long: ring.Off})
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
}
