package endpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// Peers that do not keep to what batches are agreed to be.

// askWindows has the server open windows for batches.
func (x *intruder) askWindows(w *world) error {
	x.say(endpoint.Message(endpoint.KindAsk, 0, 0, 0, 0, 0, 0, 0, nil, nil))
	for range 100 {
		if len(x.windows) > 0 {
			return nil
		}
		w.Sleep(20 * time.Microsecond)
		x.hear()
	}
	return errors.New("the server has opened no windows")
}

// put writes b to window i, at an offset, and says that window says is written, if
// that is not negative.
func (x *intruder) put(w *world, b []byte, i, offset, says int) bool {
	known := x.windows[i*windowKnown:]
	n := copy(x.mem[:endpoint.MessageSize], b)
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:n], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: says >= 0, Immediate: uint32(batchCredits + says),
		Remote: vipl.RemoteSegment{Addr: binary.LittleEndian.Uint64(known) + uint64(offset), Handle: vipl.MemHandle(binary.LittleEndian.Uint32(known[8:]))}}
	ok := x.post() && x.hear()
	w.Sleep(100 * time.Microsecond)
	return ok
}

// overwrite has a window opened for bulk data, which is longer than one for batches,
// writes it, and says that it is batch window i.
func (x *intruder) overwrite(w *world, i int) {
	const size = 70_000
	x.say(endpoint.Message(endpoint.KindAnnounce, hEcho, 9, 2, 0, 0, 0, size, nil, nil))
	w.Sleep(5 * time.Millisecond)
	x.hear()
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:size], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: true, Immediate: uint32(batchCredits + i),
		Remote: vipl.RemoteSegment{Addr: binary.LittleEndian.Uint64(x.window[:]), Handle: vipl.MemHandle(binary.LittleEndian.Uint32(x.window[8:]))}}
	x.post()
}

// batchMessage returns a request with a payload.
func batchMessage(slot uint16, use uint32) []byte {
	return endpoint.Message(endpoint.KindMedium, hEcho, slot, use, 0, 0, 0, 0, nil, pattern(make([]byte, 500), int(slot)))
}

// batchStory is a server that looks at what it gets twice, and an intruder that has
// windows.
func batchStory(t *testing.T, cfg endpoint.Config, act func(w *world, server *endpoint.Node, x *intruder, ran *int) error) {
	t.Helper()
	w := newWorld(sim.Options{})
	var server *party
	var wrong error
	ran := 0
	w.pair(cfg, func(s *party) {
		server = s
		s.ep.SetSegment(make([]byte, 80_000))
		other, _ := serverNode(s).NewBundle(endpoint.Sequential)
		s.ep.SetHandler(hEcho, func(_ endpoint.Token, _ []uint32, data []byte) {
			ran++
			before := bytes.Clone(data)
			for range 20 { // while the node goes on
				w.Sleep(100 * time.Microsecond)
				other.Poll()
			}
			if !bytes.Equal(data, before) {
				wrong = errors.New("the data has changed while its handler was running")
			}
		})
	}, func(n *endpoint.Node, c *party) error {
		x, err := c.intrude(n, batchCredits)
		if err != nil {
			return err
		}
		return act(w, serverNode(server), x, &ran)
	})
	if err := errors.Join(w.run(), wrong); err != nil {
		t.Fatal(err)
	}
}

// batchCounts wants so many strays and handlers that ran.
func batchCounts(n *endpoint.Node, ran, strays, wantRan int) error {
	if s := n.Stats(); int(s.Strays) != strays || ran != wantRan || s.Panics > 0 {
		return fmt.Errorf("%d handlers ran, want %d; %d strays, want %d", ran, wantRan, s.Strays, strays)
	}
	return nil
}

// TestHostileBatches: what a client says about windows that is not so is counted,
// and has no effect; the windows stay of use.
func TestHostileBatches(t *testing.T) {
	batchStory(t, endpoint.Config{}, func(w *world, n *endpoint.Node, x *intruder, ran *int) error {
		if err := x.askWindows(w); err != nil {
			return err
		}
		count := len(x.windows) / windowKnown
		want, strays := 0, 0
		for _, step := range []struct {
			what         string
			do           func()
			runs, strays int
		}{
			{"asks again", func() { x.say(endpoint.Message(endpoint.KindAsk, 0, 0, 0, 0, 0, 0, 0, nil, nil)) }, 0, 1},
			{"opens windows for the server", func() { x.say(endpoint.Message(endpoint.KindWindows, 0, 0, 0, 0, 0, 0, 0, nil, x.windows)) }, 0, 1},
			{"writes one", func() { x.put(w, batchMessage(0, 1), 0, 0, 0) }, 1, 0},
			{"says so of one that it cannot have", func() { x.put(w, batchMessage(1, 1), 1, 0, count) }, 0, 1},
			{"writes what is no message", func() { x.put(w, bytes.Repeat([]byte{0xEE}, 900), 1, 0, 1) }, 0, 1},
			{"writes nothing", func() { x.put(w, nil, 1, 0, 1) }, 0, 0},
			{"says so of another than it wrote", func() { x.put(w, batchMessage(1, 1), 2, 0, 3) }, 0, 1},
			{"writes more, elsewhere, than it holds", func() { x.overwrite(w, 1) }, 0, 1},
			{"writes two messages", func() { x.put(w, endpoint.Join(batchMessage(1, 3), batchMessage(2, 4)), 2, 0, 2) }, 2, 0},
		} {
			step.do()
			w.Sleep(10 * time.Millisecond)
			want, strays = want+step.runs, strays+step.strays
			if err := batchCounts(n, *ran, strays, want); err != nil {
				return fmt.Errorf("%s: %w", step.what, err)
			}
		}
		return nil
	})
}

// TestBatchClosed: a window is closed while a handler looks at it: who writes to it
// all the same loses its connection, and who only says so is not heard.
func TestBatchClosed(t *testing.T) {
	for name, c := range map[string]struct {
		act    func(w *world, x *intruder) bool
		lives  bool
		strays int
	}{
		"writes":            {func(w *world, x *intruder) bool { return x.put(w, bytes.Repeat([]byte{7}, 600), 0, 0, -1) }, false, 0},
		"writes its middle": {func(w *world, x *intruder) bool { return x.put(w, []byte{7}, 0, 200, 0) }, false, 0},
		"says so":           {func(w *world, x *intruder) bool { return x.put(w, nil, 0, 0, 0) }, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			batchStory(t, endpoint.Config{}, func(w *world, n *endpoint.Node, x *intruder, ran *int) error {
				if err := x.askWindows(w); err != nil {
					return err
				}
				if !x.put(w, batchMessage(0, 1), 0, 0, 0) || *ran != 1 {
					return errors.New("the handler does not run")
				}
				c.act(w, x)
				w.Sleep(5 * time.Millisecond)
				if lives := x.put(w, batchMessage(3, 2), 0, 0, 0); lives != c.lives {
					return fmt.Errorf("connected: %v, want %v", lives, c.lives)
				}
				w.Sleep(5 * time.Millisecond)
				want := 1
				if c.lives {
					want++
				}
				return batchCounts(n, *ran, c.strays, want)
			})
		})
	}
}

// TestBatchMemory: windows count towards the memory for connections, are refused when
// that is used up, and are given back with the connection.
func TestBatchMemory(t *testing.T) {
	one := endpoint.ShapeMemory(endpoint.Credits{Short: batchCredits}, endpoint.DefaultMaxMedium)
	for name, room := range map[string]bool{"room": true, "no room": false} {
		t.Run(name, func(t *testing.T) {
			budget := 2 * one // the client's station may have half of it
			if !room {
				budget -= 2
			}
			batchStory(t, endpoint.Config{MaxConnectionMemory: budget}, func(w *world, n *endpoint.Node, x *intruder, ran *int) error {
				before := n.NIC().Snapshot().RegionBytes
				if err := x.askWindows(w); (err == nil) != room {
					return fmt.Errorf("windows: %w", err)
				}
				if got := n.NIC().Snapshot().RegionBytes > before; got != room {
					return fmt.Errorf("memory was taken: %v", got)
				}
				x.vi.Disconnect()
				w.Sleep(5 * time.Millisecond)
				if got := n.NIC().Snapshot().RegionBytes; got >= before || endpoint.Taken(n) != 0 {
					return fmt.Errorf("%d bytes of %d, and %d of the budget, are still in use", got, before, endpoint.Taken(n))
				}
				return nil
			})
		})
	}
}

// list opens windows to the memory in mems, and says where they are.
func (x *intruder) list(mems [][]byte) (list []byte) {
	for _, mem := range mems {
		window, _ := x.opens(mem)
		list = append(list, window...)
	}
	return list
}

// TestHostileWindows: a client takes windows that it has asked for, once, and as many
// as it may have.
func TestHostileWindows(t *testing.T) {
	w := newWorld(sim.Options{})
	done := false
	most := endpoint.Batches(endpoint.Credits{Short: batchCredits}, endpoint.DefaultMaxMedium) + 1
	mem, wrong := make([]byte, most*endpoint.BatchSize), make([]byte, endpoint.BatchSize)
	w.answerer(func(w *world, nic *vipl.NIC, done *bool) error {
		x, err := acceptOne(w, nic)
		if err != nil {
			return err
		}
		bad := func(count int) []byte { return x.list(slices.Repeat([][]byte{wrong}, count)) }
		windows := func(list []byte) { x.say(endpoint.Message(endpoint.KindWindows, 0, 0, 0, 0, 0, 0, 0, nil, list)) }
		ask := func() { x.say(endpoint.Message(endpoint.KindAsk, 0, 0, 0, 0, 0, 0, 0, nil, nil)) }
		if err := x.hearMore(w, 1); err != nil {
			return err
		}
		windows(bad(most)) // nobody has asked
		ask()
		w.board["unasked"] = endpoint.Name{}
		if err := x.hearMore(w, 3); err != nil { // two requests, and the question
			return err
		}
		windows(bad(most + 1))
		windows(bad(1))
		windows(bad(3)[:32])
		ask()
		windows(x.list(slices.Collect(slices.Chunk(mem, endpoint.BatchSize))))
		windows(bad(most))
		w.board["opened"] = endpoint.Name{}
		return x.stays(w, done)
	}, &done)
	w.node("client", endpoint.Config{Credits: endpoint.Credits{Short: batchCredits}}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.Map(0, w.find("intruder"), 5)
		data := make([]byte, 4096)
		for _, sign := range []string{"unasked", "opened"} {
			if err := c.ep.RequestMedium(bg, 0, hMute, data); err != nil {
				return err
			}
			for there := false; !there; _, there = w.board[sign] {
				c.rest(n)
			}
			c.rest(n)
		}
		if s := n.Stats(); s.Strays != 7 || s.Broken != 0 {
			return fmt.Errorf("%d strays, %d connections broke", s.Strays, s.Broken)
		}
		for range 20 {
			if err := c.ep.RequestMedium(bg, 0, hMute, data); err != nil {
				return err
			}
		}
		c.rest(n)
		if bytes.Equal(mem, make([]byte, len(mem))) || !bytes.Equal(wrong, make([]byte, len(wrong))) {
			return errors.New("the windows are not used, or others are")
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}
