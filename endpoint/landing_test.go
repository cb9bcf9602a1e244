package endpoint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// landingSizes are sizes of bulk data beyond those of medium messages. Those up to 256 KiB land.
var landingSizes = []int{9000, 17 << 10, 65_535, 65_536, 65_537, 128<<10 + 1, 200_000, 256 << 10, 256<<10 + 1, 300_000}

// landingTalk has a client send bulk requests of a size, each of which is answered by its data. After each
// one it calls then.
func landingTalk(opts sim.Options, cfg endpoint.Config, size, rounds int, then func(n *endpoint.Node, round int) error) error {
	var segment []byte
	var wrong error
	return pair(opts, cfg, func(s *party) {
		segment = make([]byte, size+100)
		s.ep.SetSegment(segment)
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
			if len(args) != 1 || &data[0] != &segment[50] || !bytes.Equal(data, pattern(make([]byte, size), int(args[0]))) {
				wrong = fmt.Errorf("request %v: other data, or elsewhere", args)
			}
			t.ReplyBulk(hReply, data, 20, args...)
		})
	}, func(n *endpoint.Node, c *party) error {
		mine, answered := make([]byte, size+40), 0
		c.ep.SetSegment(mine)
		c.ep.SetHandler(hReply, func(_ endpoint.Token, args []uint32, data []byte) {
			if len(args) != 1 || &data[0] != &mine[20] || !bytes.Equal(data, pattern(make([]byte, size), int(args[0]))) {
				wrong = fmt.Errorf("reply %v: other data, or elsewhere", args)
			}
			answered++
		})
		for round := range rounds {
			if err := c.ep.RequestBulk(bg, 0, hEcho, pattern(make([]byte, size), round), 50, uint32(round)); err != nil {
				return err
			}
			if err := c.until(n, "the reply", func() bool { return answered > round }); err != nil {
				return err
			}
			if err := then(n, round); err != nil {
				return err
			}
		}
		for round := range rounds { // gets, of what was sent last
			if err := c.ep.Get(bg, 0, hReply, 50, 20, size, uint32(rounds-1)); err != nil {
				return err
			}
			if err := c.until(n, "the data", func() bool { return answered > rounds+round }); err != nil {
				return err
			}
		}
		return errors.Join(wrong, c.ep.SetSegment(nil))
	})
}

// TestLanding: when both sides have been told of some bulk messages, one of up to 256 KiB and its bulk reply
// are one message each, without an announcement.
func TestLanding(t *testing.T) {
	for _, credits := range []int{0, 128} { // few slots, with a place each, and many, which share places
		t.Run(fmt.Sprintf("credits=%d", credits), func(t *testing.T) { testLanding(t, credits) })
	}
}

func testLanding(t *testing.T, credits int) {
	for _, size := range landingSizes {
		sent := func(n *endpoint.Node) (sent uint64) {
			for _, vi := range n.NIC().Snapshot().VIs {
				sent += vi.Sends
			}
			return sent
		}
		var before uint64
		want := uint64(1)
		if size > 256<<10 {
			want = 3 // announcement, data, and where the reply goes
		}
		err := landingTalk(sim.Options{}, endpoint.Config{Credits: endpoint.Credits{Short: credits}}, size, 12, func(n *endpoint.Node, round int) error {
			last := before
			if before = sent(n); round > 6 && before-last != want {
				return fmt.Errorf("the client sends %d messages, want %d", before-last, want)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestLandingEnded: RequestBulk with a context that has ended does not wait for data to land. It
// copies them, and the caller may change them at once.
func TestLandingEnded(t *testing.T) {
	const size = 17 << 10
	ended, end := context.WithCancel(bg)
	end()
	var wrong error
	handled := 0
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		s.ep.SetSegment(make([]byte, size))
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
			if !bytes.Equal(data, pattern(make([]byte, size), int(args[0]))) {
				wrong = fmt.Errorf("request %v: other data", args)
			}
			t.Reply(hReply)
		})
	}, func(n *endpoint.Node, c *party) error {
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { handled++ })
		data := make([]byte, size)
		for round := range 6 {
			ctx := bg
			if round%2 == 1 {
				ctx = ended
			}
			before := n.NIC().Now()
			if err := c.ep.RequestBulk(ctx, 0, hEcho, pattern(data, round), 0, uint32(round)); err != nil {
				return err
			}
			if took := n.NIC().Now() - before; ctx == ended && took > 0 {
				return fmt.Errorf("round %d took %v", round, time.Duration(took))
			}
			clear(data)
			if err := c.until(n, "the reply", func() bool { return handled > round }); err != nil {
				return err
			}
		}
		return wrong
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLandingLoss: bulk data of these sizes arrive whole and once over a network that loses, reorders, duplicates and
// corrupts frames.
func TestLandingLoss(t *testing.T) {
	seeds(t, 3, func(seed uint64) error {
		for _, size := range landingSizes {
			opts := sim.Options{Seed: seed, Loss: 0.02, Reorder: 0.05, Dup: 0.02, Corrupt: 0.01, Delay: 2000, Bandwidth: 10e9}
			if err := landingTalk(opts, endpoint.Config{}, size, 6, func(*endpoint.Node, int) error { return nil }); err != nil {
				return fmt.Errorf("%d bytes: %w", size, err)
			}
		}
		return nil
	})
}

// lands writes b to place i of the landing memory, at an offset, and says that it is the message of a slot.
func (x *intruder) lands(w *world, b []byte, i, offset int, slot uint32) bool {
	const place = 128 + 256<<10
	n := copy(x.mem[:endpoint.MessageSize], b)
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:n], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: true, Immediate: 1<<31 | slot,
		Remote: vipl.RemoteSegment{Addr: binary.LittleEndian.Uint64(x.landing[:]) + uint64(i*place+offset), Handle: vipl.MemHandle(binary.LittleEndian.Uint32(x.landing[8:]))}}
	ok := x.post() && x.hear()
	w.Sleep(5 * time.Millisecond)
	x.hear()
	return ok
}

// TestHostileLanding: what a client says about landing memory that is not so is counted, and has no effect.
func TestHostileLanding(t *testing.T) {
	w := newWorld(sim.Options{})
	var server *party
	ran := 0
	w.pair(endpoint.Config{}, func(s *party) {
		server = s
		s.ep.SetSegment(make([]byte, 80_000))
		s.ep.SetHandler(hEcho, func(endpoint.Token, []uint32, []byte) { ran++ })
	}, func(n *endpoint.Node, c *party) error {
		x, err := c.intrude(n, 4)
		if err != nil {
			return err
		}
		bulk := func(slot uint16, use uint32, size int) []byte {
			return endpoint.Message(endpoint.KindBulk, hEcho, slot, use, 0, 0, 0, uint32(size), nil, make([]byte, size))
		}
		says := func(msg []byte) {
			x.say(msg)
			w.Sleep(5 * time.Millisecond)
			x.hear()
		}
		strays := 0
		for _, step := range []struct {
			what         string
			do           func()
			runs, strays int
		}{
			{"says so without any", func() { x.lands(w, nil, 0, 0, 0) }, 0, 1},
			{"announces", func() {
				for slot := range uint16(2) {
					says(endpoint.Message(endpoint.KindAnnounce, hEcho, slot, uint32(slot)+1, 0, 0, 0, 20_000, nil, nil))
					x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:20_000], Handle: x.h}}
					x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: true, Immediate: uint32(slot),
						Remote: vipl.RemoteSegment{Addr: x.windowAddr(), Handle: vipl.MemHandle(binary.LittleEndian.Uint32(x.window[8:]))}}
					x.post()
					w.Sleep(5 * time.Millisecond)
				}
			}, 2, 0},
			{"gives the server some", func() { says(endpoint.Message(endpoint.KindLanding, 0, 0, 0, 0, 0, 0, 0, nil, x.landing[:])) }, 0, 0},
			{"gives it twice", func() { says(endpoint.Message(endpoint.KindLanding, 0, 0, 0, 0, 0, 0, 0, nil, x.landing[:])) }, 0, 1},
			{"gives nothing", func() { says(endpoint.Message(endpoint.KindLanding, 0, 0, 0, 0, 0, 0, 0, nil, nil)) }, 0, 1},
			{"lands", func() { x.lands(w, bulk(2, 3, 2000), 2, 0, 2) }, 1, 0},
			{"lands in a slot that it has not", func() { x.lands(w, bulk(3, 4, 100), 3, 0, 4) }, 0, 1},
			{"lands in any slot", func() { x.lands(w, bulk(3, 4, 100), 3, 0, 1<<31-1) }, 0, 1},
			{"lands elsewhere than it says", func() { x.lands(w, bulk(3, 4, 100), 3, 0, 2) }, 0, 1},
			{"names another slot", func() { x.lands(w, bulk(2, 4, 100), 3, 0, 3) }, 0, 1},
			{"lands nothing", func() { x.lands(w, nil, 3, 0, 3) }, 0, 1},
			{"lands what is no message", func() { x.lands(w, bytes.Repeat([]byte{0xEE}, 900), 3, 0, 3) }, 0, 1},
			{"lands another kind", func() { x.lands(w, batchMessage(3, 4), 3, 0, 3) }, 0, 1},
			{"lands an old number", func() { x.lands(w, bulk(3, 1, 100), 3, 0, 3) }, 0, 1},
			{"lands again", func() { x.lands(w, bulk(3, 4, 3000), 3, 0, 3) }, 1, 0},
		} {
			before := ran
			step.do()
			strays += step.strays
			if s := serverNode(server).Stats(); int(s.Strays) != strays || ran-before != step.runs || s.Panics > 0 || s.Broken > 0 {
				return fmt.Errorf("%s: %d handlers ran, want %d; %d strays, want %d; %d connections broke", step.what, ran-before, step.runs, s.Strays, strays, s.Broken)
			}
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}
