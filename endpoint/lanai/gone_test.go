package lanai_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
)

// TestLookupOverDownInterface: a lookup that nobody can answer because the card's own interface is down says so, also
// of a card of another process. Otherwise it names what it has looked for.
func TestLookupOverDownInterface(t *testing.T) {
	veth := vethtest.New(t, 1500)
	own, _ := served(t, veth, 0, false)
	far := openVeth(t, veth, 0)
	for _, down := range []bool{false, true} {
		if err := veth.SetUp(0, !down); err != nil {
			t.Fatal(err)
		}
		for _, card := range []*lanai.Card{own, far} {
			n, err := endpoint.Open(t.Context(), &endpoint.Config{Card: card, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err = n.Find(ctx, "nobody")
			cancel()
			if down != errors.Is(err, transport.ErrLinkDown) || !errors.Is(err, endpoint.ErrResource) || !strings.Contains(err.Error(), `the word "nobody"`) {
				t.Errorf("interface down %v: %v", down, err)
			}
			n.Close()
		}
	}
}

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
