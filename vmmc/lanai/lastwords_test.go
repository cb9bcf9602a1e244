package lanai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// lastSize is the bytes of each last word in the exporter's memory.
const lastSize = 6000

// sayLast opens a process, writes so many messages to process 0, of which each notifies it, and
// closes the process at once.
func sayLast(ctx context.Context, h *lanai.Card, number uint32, size, messages int) error {
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: h, Process: number})
	if err != nil {
		return err
	}
	to, err := p.Import(ctx, vmmc.Name{})
	for i := 0; err == nil && i < messages; i++ {
		src := bytes.Repeat([]byte{byte(number)}, size)
		err = p.Post(&vmmc.Send{Src: src, Dst: to.Addr() + vmmc.ProxyAddr(i*lastSize), Notify: true})
	}
	return errors.Join(err, p.Close())
}

// hear is an exporter that wants so many notifications.
func hear(ctx context.Context, h *lanai.Card, memory []byte, want int) error {
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: h})
	if err != nil {
		return err
	}
	defer p.Close()
	var heard atomic.Int64
	if _, err = p.Export(memory, 0, vmmc.Everybody, func(vmmc.Notification) { heard.Add(1) }); err == nil {
		err = p.Await(ctx, func() bool { return heard.Load() == int64(want) })
	}
	if err != nil {
		err = fmt.Errorf("%d of %d last words heard: %w", heard.Load(), want, err)
	}
	return err
}

// TestLastWords: what a process has posted before it was closed is in the exporter's memory, and
// the exporter is told, although the process is gone: short and long messages, more than the
// send queue has slots, and more notifications than there is room for at once.
func TestLastWords(t *testing.T) {
	for name, x := range map[string]struct {
		cfg                    lanai.Config
		bitErrors              float64
		size, messages, rounds int
	}{
		"short":              {size: 8, messages: 1, rounds: 100},
		"long":               {size: lastSize, messages: 1, rounds: 30},
		"more than slots":    {size: 8, messages: 2 * lanai.Slots, rounds: 3},
		"long ones":          {size: lastSize, messages: 20, rounds: 3},
		"bit errors":         {size: lastSize, messages: 10, rounds: 10, bitErrors: 1e-6},
		"nothing sent again": {size: 8, messages: 40, rounds: 10, cfg: lanai.Config{Drop: true}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, myrinet.Options{Seed: 17, BitErrors: x.bitErrors})
			x.cfg.Card.Timing = myrinet.PCITiming()
			for i := range 2 {
				n.host(i, x.cfg)
			}
			ctx, cancel := n.hosts[0].WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			memory := make([]byte, x.messages*lastSize)
			n.Go("exporter", func() {
				if err := hear(ctx, n.hosts[0], memory, x.rounds*x.messages); err != nil {
					t.Error(err)
				}
			})
			n.Go("importers", func() {
				for i := range x.rounds {
					if err := sayLast(ctx, n.hosts[1], uint32(i+1), x.size, x.messages); err != nil {
						t.Errorf("round %d: %v", i, err)
					}
				}
				_ = n.Sleep(time.Second) // that all has ended; its error is Run's, too
			})
			if err := n.World.Run(); err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for i := range x.messages {
				wrong += differ(memory[i*lastSize:], bytes.Repeat([]byte{byte(x.rounds)}, x.size))
			}
			if wrong > 0 {
				t.Errorf("%d bytes of what the last process has written are not there", wrong)
			}
			for i, h := range n.hosts {
				if err := empty(h); err != nil {
					t.Errorf("host %d: %v", i, err)
				}
			}
		})
	}
}

// lastVeth is two hosts at the ends of a cable between two network namespaces.
func lastVeth(t *testing.T) (hosts [2]*lanai.Card) {
	t.Helper()
	veth := vethtest.New(t, 1500)
	for side := range hosts {
		err := veth.In(side, func() (err error) {
			hosts[side], err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name,
				MAC: mac(side + 1), Routes: []myrinet.HostRoute{{To: mac(2 - side)}}, PeerTimeout: time.Minute})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hosts[side].Close() })
	}
	return hosts
}

// TestLastWordsVeth is TestLastWords over a cable between two network namespaces.
func TestLastWordsVeth(t *testing.T) {
	hosts := lastVeth(t)
	const rounds = 100
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < rounds && err == nil; i++ {
			err = sayLast(ctx, hosts[1], uint32(i+1), 8, 1)
		}
		said <- err
	}()
	if err := hear(ctx, hosts[0], make([]byte, lastSize), rounds); err != nil {
		t.Error(err)
	}
	if err := <-said; err != nil {
		t.Error(err)
	}
}

// TestHostLastWords: what a process has posted is in the exporter's memory when its host has
// closed, though the process itself has not: also what takes longer to arrive than a host waits for
// an answer.
func TestHostLastWords(t *testing.T) {
	for name, x := range map[string]struct{ messages, size, room int }{
		"many":  {10 * lanai.Slots, 4, 40 * lanai.Slots},
		"large": {lanai.Slots, 2 << 20, 4 << 20},
	} {
		t.Run(name, func(t *testing.T) { hostLastWords(t, x.messages, x.size, x.room) })
	}
}

// hostLastWords posts messages of a size into memory of room bytes, one behind the other and then again
// from its beginning, and closes the host.
func hostLastWords(t *testing.T, messages, size, room int) {
	hosts := lastVeth(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ps [2]*vmmc.Process
	for i := range ps {
		p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: hosts[i], Process: uint32(i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		ps[i] = p
	}
	memory, want := make([]byte, room), make([]byte, room)
	if _, err := ps[0].Export(memory, 0, vmmc.Everybody, nil); err != nil {
		t.Fatal(err)
	}
	to, err := ps[1].Import(ctx, vmmc.Name{})
	for i := 0; err == nil && i < messages; i++ {
		src := bytes.Repeat([]byte{byte(i%250 + 1)}, size)
		copy(want[size*i%room:], src)
		err = ps[1].Post(&vmmc.Send{Src: src, Dst: to.Addr() + vmmc.ProxyAddr(size*i%room)})
	}
	if err := errors.Join(err, hosts[1].Close()); err != nil {
		t.Fatal(err)
	}
	hosts[0].Snapshot() // under the lock that what it has written was written under, and moves nothing
	if wrong := differ(memory, want); wrong > 0 {
		t.Errorf("%d bytes of %d are not there", wrong, len(memory))
	}
}

// TestCloseEndsWaits: a process that waits, and is connected with nobody, hears that another
// part of its program has closed it.
func TestCloseEndsWaits(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 18})
	p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: n.host(0, lanai.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	n.Go("waits", func() {
		if err := p.Await(context.Background(), func() bool { return false }); !errors.Is(err, vmmc.ErrClosed) {
			t.Errorf("the wait ends by %v", err)
		}
	})
	n.Go("closes", func() {
		if err := errors.Join(n.Sleep(time.Millisecond), p.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := n.World.Run(); err != nil {
		t.Fatal(err)
	}
}
