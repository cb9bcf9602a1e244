package vipl_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestGivenUpInHandshake: a client whose server leaves in the middle of the
// handshake learns so by the first word, not by what answers its next try.
func TestGivenUpInHandshake(t *testing.T) {
	d := newDuo(t, nil, nil)
	server, client := d.idle(d.na), d.idle(d.nb)
	l, err := d.na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := client.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := taken(l, d.nb)
	if err == nil {
		err = r.AcceptStart(server)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.nb.Poll() // sends the probe
	if err := server.Disconnect(); err != nil {
		t.Fatal(err)
	}
	d.nb.Poll()
	if err := client.ConnectDone(); !errors.Is(err, vipl.ErrDisconnected) {
		t.Errorf("ConnectDone = %v (%v), want ErrDisconnected", err, client.State())
	}
}
