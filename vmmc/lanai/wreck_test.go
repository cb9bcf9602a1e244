package lanai_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestWrecked: a program that scribbles over every byte that it maps, and says what no program says,
// does not stop others on its card, and writes to nothing of theirs.
func TestWrecked(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{Processes: 16, Card: myrinet.CardConfig{SRAM: 1 << 20}})
	other := openVeth(t, veth, 1, lanai.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	near := openVeth(t, veth, 0, lanai.Config{})
	bystander, e, err := exporter(ctx, near, 90)
	if err != nil {
		t.Fatal(err)
	}
	_, importing, err := exporter(ctx, other, 91) // what the wild program may write to
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var wild sync.WaitGroup
	for seed := range uint64(2) {
		wild.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for round := 0; ; round++ {
				c := openVeth(t, veth, 0, lanai.Config{})
				p, err := vmmc.Open(ctx, &vmmc.Config{Card: c, Process: uint32(1000*(seed+1)) + uint32(round)})
				if err == nil && seed == 0 {
					_, err = p.Import(ctx, vmmc.Name{Process: 91, ID: 7})
				}
				if err != nil {
					t.Errorf("wild program %d, round %d: %v", seed, round, err)
					c.Close()
					return
				}
				for range 50 {
					select {
					case <-over:
						c.Close()
						return
					default:
					}
					if seed == 0 {
						c.Wreck(rng)
					} else {
						c.Babble(rng)
					}
				}
				c.Close()
			}
		})
	}
	for i, pair := range [][2]*lanai.Card{{near, other}, {other, near}, {near, near}, {near, other}} {
		if err := writes(t, pair[0], pair[1], uint32(100+2*i)); err != nil {
			t.Error(fmt.Errorf("pair %d: %w", i, err))
		}
	}
	refused := func() bool {
		s := card.Snapshot().Stats
		return s.BadRequests+s.BadProxies+s.BadAddresses > 0
	}
	for ctx.Err() == nil && !refused() { // all pairs may be faster than the first wreck
		runtime.Gosched()
	}
	close(over)
	wild.Wait()
	for i, b := range e.Bytes() {
		if b != 0 {
			t.Fatalf("byte %d of a bystander's memory is %d", i, b)
		}
	}
	_ = importing
	bystander.Close()
	if err := left(card); err != nil {
		t.Error(err)
	}
	if !refused() {
		t.Errorf("no request was refused: %+v", card.Snapshot().Stats)
	}
}

// TestGivenToStranger: a process gives memory to one that has never heard of it, and ends. The other one has
// nothing to say to that. Nothing of the process is left on the card all the same.
func TestGivenToStranger(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false, lanai.Config{})
	other := openVeth(t, veth, 1, lanai.Config{})
	near := openVeth(t, veth, 0, lanai.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stranger, _, err := exporter(ctx, other, 91)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	giver, _, err := exporter(ctx, near, 90)
	if err != nil {
		t.Fatal(err)
	}
	if err := writes(t, near, other, 100); err != nil { // the line is there
		t.Fatal(err)
	}
	near.Grant(90, other.Addr(91))
	giver.Close()
	if err := left(card); err != nil {
		t.Error(err)
	}
}
