package stream_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInterfaceGone: when an interface is gone, Accept and Read of its streams return an error
// that says so, and the host that the process shares is opened anew for the next Dial.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	serve := func() (l *stream.Listener) {
		err := p.In(1, func() error {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
			if err == nil {
				t.Cleanup(func() { nic.Close() })
				l = listen(t, open(t, stream.Config{NIC: nic}), "bobnet://server")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	gone := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, transport.ErrGone) || !errors.Is(err, vipl.ErrLink) {
			t.Errorf("%s: %v, want ErrLink and ErrGone", what, err)
		}
	}
	for round := range 2 {
		l := serve()
		var c *stream.Conn
		var own *stream.Listener
		err := p.In(0, func() (err error) {
			if c, err = stream.Dial(within(t), "bobnet://server"); err == nil {
				own, err = stream.Listen(t.Context(), "")
			}
			return err
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if err := p.Delete(); err != nil {
			t.Fatal(err)
		}
		_, err = l.Accept()
		gone("Accept", err)
		_, err = c.Read(make([]byte, 1))
		gone("Read", err)
		_, err = own.Accept()
		gone("Accept of the shared host", err)
		c.Close()
		own.Close()
		if round == 0 {
			if err := p.Join(1500); err != nil {
				t.Fatal(err)
			}
		}
	}
}
