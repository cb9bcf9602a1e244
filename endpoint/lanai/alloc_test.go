package lanai_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
)

// TestNoAllocations: messages that lie in their entries, messages in staging areas and bulk
// data, with their replies, allocate nothing at either side, over a cable between two network
// namespaces. Nobody waits: the test drives both cards.
func TestNoAllocations(t *testing.T) {
	veth := vethtest.New(t, 1500)
	server, err := newParty(openVeth(t, veth, 0), endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.n.Close()
	client, err := newParty(openVeth(t, veth, 1), endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.n.Close()
	back := false
	for _, h := range []uint8{hBack, hPlaced} {
		client.ep.SetHandler(h, func(endpoint.Token, []uint32, []byte) { back = true })
	}
	if err := client.ep.Map(0, server.ep.Name(), tag); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 20_000)
	for what, send := range map[string]func() error{
		"short":  func() error { return client.ep.Request(t.Context(), 0, hEcho, 1, 2, 3, 4) },
		"medium": func() error { return client.ep.RequestMedium(t.Context(), 0, hEcho, data[:3000], 1, 2) },
		"bulk":   func() error { return client.ep.RequestBulkAsync(0, hPlace, data, 0, 1) },
	} {
		var failure error
		round := func() {
			back = false
			err := send()
			for err == nil && !back {
				_, err = client.b.Poll()
				if _, e := server.b.Poll(); err == nil {
					err = e
				}
			}
			if err != nil {
				failure = err
			}
		}
		for range 200 {
			round()
		}
		allocs := alloctest.PerRun(t, 200, round)
		if failure != nil {
			t.Fatalf("%s: %v", what, failure)
		}
		if allocs != 0 {
			t.Errorf("%s: %v allocations a round, want 0", what, allocs)
		}
	}
}
