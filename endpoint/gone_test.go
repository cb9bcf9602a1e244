package endpoint_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInterfaceGone: a server that waits for messages ends when its interface is gone.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	var nic *vipl.NIC
	err := p.In(0, func() (err error) {
		nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	n, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nic, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	b, err := n.NewBundle(endpoint.Parallel)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetEventMask(endpoint.NotEmpty); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- b.Wait(bg) }()
	go func() { _, err := n.Find(bg, "nobody"); ended <- err }()
	if err := p.Delete(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, transport.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	}
}
