package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// rawPair connects two stations of a simulated segment.
func rawPair(opts sim.Options, size int) (w *sim.World, client, server *rawConn) {
	w = sim.New(opts)
	a, b := w.Station("client"), w.Station("server")
	c := Case{Stack: "raw", Wait: Block, Size: size}
	client = newRawConn(a, ethertype.Addr{MAC: b.MAC(), Port: b.Info().Ports.Lo}, c)
	server = newRawConn(b, ethertype.Addr{MAC: a.MAC(), Port: a.Info().Ports.Lo}, c)
	return w, client, server
}

func TestRawCarriesEverySize(t *testing.T) {
	const frame = 1500 - ethertype.BaseSize
	for _, size := range []int{1, 64, rawInline, rawInline + 1, frame - 1, frame, frame + 1, 10 * frame, 300_000} {
		for _, slots := range []int{0, 5} { // a full queue cuts batches short
			t.Run(fmt.Sprintf("%d bytes, %d slots", size, slots), func(t *testing.T) {
				w, client, server := rawPair(sim.Options{Seed: 1, TxSlots: slots, Bandwidth: 1e10}, size)
				const messages = 3
				rng := rand.New(rand.NewPCG(1, uint64(size)))
				for _, buf := range client.tx.bufs {
					for i := range buf {
						buf[i] = byte(rng.Uint32())
					}
				}
				w.Go("client", func() {
					if n, err := client.Stream(context.Background(), messages); n != messages || err != nil {
						t.Errorf("stream: %d messages, %v", n, err)
					}
					rtt := make([]int64, 2)
					if err := client.PingPong(context.Background(), rtt); err != nil || rtt[1] < 20_000 {
						t.Errorf("ping-pong: %v ns, %v", rtt, err)
					}
				})
				w.Go("server", func() {
					if err := server.Sink(context.Background(), messages); err != nil {
						t.Errorf("sink: %v", err)
					}
					if err := server.Echo(context.Background(), 2); err != nil {
						t.Errorf("echo: %v", err)
					}
				})
				if err := w.Run(); err != nil {
					t.Fatal(err)
				}
				for i := range messages + 2 {
					if !bytes.Equal(client.tx.bufs[i%len(client.tx.bufs)], server.rx.bufs[i%len(server.rx.bufs)]) {
						t.Errorf("message %d is not what was sent", i)
					}
				}
			})
		}
	}
}

func TestRawNoticesLoss(t *testing.T) {
	for name, opts := range map[string]sim.Options{
		"lost":    {Seed: 7, Loss: 0.05},
		"twice":   {Seed: 7, Dup: 0.05},
		"swapped": {Seed: 7, Reorder: 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			w, client, server := rawPair(opts, 100_000)
			var errs [2]error
			w.Go("client", func() { _, errs[0] = client.Stream(context.Background(), 4) })
			w.Go("server", func() { errs[1] = server.Sink(context.Background(), 4) })
			if err := w.Run(); err != nil {
				t.Fatal(err)
			}
			if !errors.Is(errs[1], errLost) {
				t.Errorf("sink: %v, want errLost", errs[1])
			}
		})
	}
}

// TestRawNoticesQuiet: of a ping-pong whose frame is lost neither side waits for the
// sample's time-out.
func TestRawNoticesQuiet(t *testing.T) {
	w, client, server := rawPair(sim.Options{Seed: 7, Loss: 1}, 64)
	var errs [2]error
	var ended [2]int64
	w.Go("client", func() {
		errs[0] = client.PingPong(context.Background(), make([]int64, 1))
		ended[0] = client.link.Now()
	})
	w.Go("server", func() {
		errs[1] = server.Echo(context.Background(), 1)
		ended[1] = server.link.Now()
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	for i := range errs {
		if !errors.Is(errs[i], errLost) || ended[i] >= int64(sampleTimeout) {
			t.Errorf("side %d ends with %v after %v", i, errs[i], time.Duration(ended[i]))
		}
	}
}

func TestRawAllocatesNothing(t *testing.T) {
	w, client, server := rawPair(sim.Options{Seed: 1}, 4000)
	const rounds = 20
	w.Go("server", func() { server.Echo(context.Background(), rounds) })
	w.Go("client", func() {
		rtt := make([]int64, rounds)
		if err := client.PingPong(context.Background(), rtt); err != nil {
			t.Error(err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		for i := range 3 {
			client.build(i, client.tx.next(client.room))
			client.tx.advance(len(client.tx.next(client.room)))
		}
	}); n != 0 {
		t.Errorf("building frames: %g allocations", n)
	}
}
