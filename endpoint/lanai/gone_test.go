package lanai_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
)

// TestInterfaceGone: waits of programs on a live card end when the card's interface is gone.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	var card *lanai.Card
	err := p.In(0, func() (err error) {
		card, err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	const waiters = 2 // one leads, the other follows
	ended := make(chan error)
	for range waiters {
		n, err := endpoint.Open(t.Context(), &endpoint.Config{Card: card, Logger: slog.New(slog.DiscardHandler)})
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
		go func() { ended <- b.Wait(t.Context()) }()
		go func() { ended <- b.Wait(t.Context()) }()
		go func() { _, err := n.Find(t.Context(), "nobody"); ended <- err }()
	}
	if err := p.Delete(); err != nil {
		t.Fatal(err)
	}
	for range 3 * waiters {
		if err := <-ended; !errors.Is(err, transport.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	}
	if _, err := endpoint.Open(t.Context(), &endpoint.Config{Card: card}); !errors.Is(err, transport.ErrGone) {
		t.Errorf("open a node: %v, want ErrGone", err)
	}
}
