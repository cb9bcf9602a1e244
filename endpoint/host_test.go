package endpoint_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

// onVeth opens a node in one of the pair's namespaces, on a NIC of its own.
func onVeth(t *testing.T, p *vethtest.Pair, side int) *endpoint.Node {
	t.Helper()
	var nic *vipl.NIC
	if err := p.In(side, func() (err error) {
		nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Long: ring.Off})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	n, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nic, MaxMedium: 60_000, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// TestOneHost: endpoints of two programs on one host, and of two hosts, exchange
// messages of all sizes. On one host they go by shared memory, whose frames are
// longer than the wire's, and nobody says so.
func TestOneHost(t *testing.T) {
	p := vethtest.New(t, 1500)
	server := onVeth(t, p, 0)
	s, err := newParty(server)
	if err != nil {
		t.Fatal(err)
	}
	s.ep.SetSegment(make([]byte, 1<<20))
	s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
		t.ReplyMedium(hReply, data[:min(len(data), 60_000)], args...)
	})
	ctx, cancel := context.WithTimeout(bg, 30*time.Second)
	served := make(chan error)
	go func() {
		for {
			if _, err := s.b.WaitPoll(ctx); err != nil {
				served <- err
				return
			}
		}
	}()
	for side, wire := range []bool{false, true} {
		n := onVeth(t, p, side)
		c, err := newParty(n)
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, ctx, n, c, s.ep.Name(), wire)
	}
	cancel()
	<-served
}

// exchange sends requests of all sizes to server, and checks that a long one
// takes as many frames as the way does.
func exchange(t *testing.T, ctx context.Context, n *endpoint.Node, c *party, server endpoint.Name, wire bool) {
	t.Helper()
	var got []byte
	replies := 0
	c.ep.SetHandler(hReply, func(_ endpoint.Token, _ []uint32, data []byte) {
		got = append(got[:0], data...)
		replies++
	})
	if err := c.ep.Map(0, server, endpoint.TagAll); err != nil {
		t.Fatal(err)
	}
	asked := 0
	await := func(err error) { // a request for bulk data may have run the handler itself
		t.Helper()
		for asked++; err == nil && replies < asked; {
			_, err = c.b.WaitPoll(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data := bytes.Repeat([]byte("one host or two "), 60_000/16)
	await(c.ep.Request(ctx, 0, hEcho, 1, 2, 3))
	await(c.ep.RequestBulk(ctx, 0, hEcho, bytes.Repeat(data, 10), 100))
	before := n.NIC().Snapshot().TxFrames
	await(c.ep.RequestMedium(ctx, 0, hEcho, data))
	if !bytes.Equal(got, data) {
		t.Errorf("the echo of %d bytes has %d", len(data), len(got))
	}
	if frames := n.NIC().Snapshot().TxFrames - before; wire != (frames > 30) {
		t.Errorf("%d frames for a message of %d bytes; over the wire: %v", frames, len(data), wire)
	}
}
