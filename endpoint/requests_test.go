package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// Handlers of the tests.
const (
	hEcho  = 10 // replies by hReply with the same size class and contents
	hReply = 11
	hMute  = 12 // does not reply
	hBig   = 13 // replies with args[0] bytes of bulk data to offset args[1]
)

// TestRequestAndReply: arguments there and back.
func TestRequestAndReply(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.Reply(hReply, args...) })
	}, func(n *endpoint.Node, c *party) error {
		for count := range endpoint.MaxShort + 1 {
			want := make([]uint32, count)
			for i := range want {
				want[i] = uint32(count*100 + i)
			}
			var got []uint32
			done := false
			c.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { got, done = slices.Clone(args), true })
			if err := c.ep.Request(bg, 0, hEcho, want...); err != nil {
				return err
			}
			if err := c.until(n, "the reply", func() bool { return done }); err != nil {
				return err
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("sent %v, got back %v", want, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// echoSizes answers medium by medium, and bulk by bulk at the same offset.
func echoSizes(s *party, segment []byte) {
	s.ep.SetSegment(segment)
	s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.ReplyMedium(hReply, data, args...) })
	s.ep.SetHandler(hMute, func(t endpoint.Token, args []uint32, data []byte) {})
	s.ep.SetHandler(hBig, func(t endpoint.Token, args []uint32, data []byte) {
		t.ReplyBulk(hReply, pattern(make([]byte, args[0]), int(args[2])), uint64(args[1]), args...)
	})
}

// TestSizes: payloads of all kinds and sizes there and back, under loss.
func TestSizes(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		segment := make([]byte, 300_000)
		opts := sim.Options{Seed: seed, Loss: 0.02, Reorder: 0.02, Dup: 0.01}
		return pair(opts, endpoint.Config{}, func(s *party) { echoSizes(s, segment) }, func(n *endpoint.Node, c *party) error {
			mine := make([]byte, 300_000)
			c.ep.SetSegment(mine)
			var got []byte
			done := 0
			c.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { got = slices.Clone(data); done++ })
			for i, size := range []int{0, 1, 100, 4096} {
				want := pattern(make([]byte, size), i)
				if err := c.ep.RequestMedium(bg, 0, hEcho, want, 1, 2); err != nil {
					return err
				}
				if err := c.until(n, "medium", func() bool { return done > i }); err != nil {
					return err
				}
				if !bytes.Equal(got, want) {
					return fmt.Errorf("medium of %d bytes is damaged", size)
				}
			}
			for i, size := range []int{0, 1, 4096, 4097, 200_000} {
				if err := bulks(n, c, i, size, segment, mine, &done, &got); err != nil {
					return fmt.Errorf("bulk of %d bytes: %w", size, err)
				}
			}
			if len(c.returned) > 0 {
				return fmt.Errorf("came back: %+v", c.returned[0])
			}
			return nil
		})
	})
}

// bulks sends a bulk request, asks for a bulk reply, and gets.
func bulks(n *endpoint.Node, c *party, i, size int, segment, mine []byte, done *int, got *[]byte) error {
	*done = 0
	want := pattern(make([]byte, size), i)
	if err := c.ep.RequestBulk(bg, 0, hEcho+uint8(3*min(1, size/4096)), want, 1000, uint32(size), 50, uint32(i)); err != nil {
		return err
	}
	if err := c.until(n, "the reply to bulk", func() bool { return *done == 1 }); err != nil {
		return err
	}
	if !bytes.Equal(segment[1000:1000+size], want) || !bytes.Equal(*got, want) {
		return errors.New("the data is damaged")
	}
	clear(mine)
	if err := c.ep.Get(bg, 0, hReply, 1000, 77, size); err != nil {
		return err
	}
	if err := c.until(n, "get", func() bool { return *done == 2 }); err != nil {
		return err
	}
	if !bytes.Equal(mine[77:77+size], want) || !bytes.Equal(*got, want) {
		return errors.New("what was fetched is damaged")
	}
	return nil
}

// TestAsyncBulk: it refuses rather than blocks, and a credit comes back when a
// request ends without a reply.
func TestAsyncBulk(t *testing.T) {
	segment := make([]byte, 100_000)
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) { echoSizes(s, segment) }, func(n *endpoint.Node, c *party) error {
		data := pattern(make([]byte, 20_000), 5)
		sent := 0
		for range 1000 {
			err := c.ep.RequestBulkAsync(0, hMute, data, uint64(sent*100))
			if errors.Is(err, endpoint.ErrInUse) {
				break
			}
			if err != nil {
				return err
			}
			sent++
		}
		if sent != 4 {
			return fmt.Errorf("%d requests before a refusal, want as many as credits: 4", sent)
		}
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		for i := 0; i < 100 && !bytes.Equal(segment[300:20_300], data); i++ {
			if err := c.ep.RequestMedium(bg, 0, hEcho, nil); err != nil { // needs a credit
				return err
			}
			if err := c.until(n, "the reply", func() bool { return replies > i }); err != nil {
				return err
			}
		}
		if !bytes.Equal(segment[300:20_300], data) {
			return errors.New("the data has not come")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCall: typed calls, their errors, and a handler that does not answer.
func TestCall(t *testing.T) {
	type pair2 struct{ A, B int32 }
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r pair2) (int64, error) {
			if r.B == 0 {
				return 0, errors.New("division by zero")
			}
			return int64(r.A / r.B), nil
		})
		endpoint.Serve(s.ep, 2, func(_ endpoint.Token, r string) (string, error) { return "<" + r + ">", nil })
		s.ep.SetHandler(3, func(endpoint.Token, []uint32, []byte) {})
		s.ep.SetHandler(4, func(endpoint.Token, []uint32, []byte) { panic("a handler that panics") })
	}, func(n *endpoint.Node, c *party) error {
		if q, err := endpoint.Call[pair2, int64](bg, c.ep, 0, 1, pair2{42, 6}); err != nil || q != 7 {
			return fmt.Errorf("42/6 = %d, %w", q, err)
		}
		var remote *endpoint.RemoteError
		if _, err := endpoint.Call[pair2, int64](bg, c.ep, 0, 1, pair2{42, 0}); !errors.As(err, &remote) || remote.Text != "division by zero" {
			return fmt.Errorf("42/0: %w", err)
		}
		if q, err := endpoint.Call[string, string](bg, c.ep, 0, 2, "x"); err != nil || q != "<x>" {
			return fmt.Errorf("string: %q, %w", q, err)
		}
		for i := uint8(3); i <= 4; i++ {
			if _, err := endpoint.Call[string, string](bg, c.ep, 0, i, "x"); !errors.Is(err, endpoint.ErrNoReply) {
				return fmt.Errorf("handler %d without a reply: %w", i, err)
			}
		}
		var back *endpoint.CallError
		if _, err := endpoint.Call[string, string](bg, c.ep, 0, 99, "x"); !errors.As(err, &back) || back.Reason != endpoint.ReasonBadHandler {
			return fmt.Errorf("no handler: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCallDeadline: a call ends at its deadline, and its late answer disturbs no
// other.
func TestCallDeadline(t *testing.T) {
	w := newWorld(sim.Options{})
	awake := false
	w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
		w.board["server"] = s.ep.Name()
		for range 50 { // it answers nobody
			w.Sleep(time.Millisecond)
			n.NIC().Poll()
		}
		awake = true
		return s.serve(n, new(bool))
	})
	w.node("client", endpoint.Config{Credits: endpoint.Credits{Short: 2}}, func(n *endpoint.Node) error {
		defer w.Kill(w.stations["server"])
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.Map(0, w.find("server"), 5)
		for _, want := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, time.Millisecond} { // the third finds no credit
			ctx, cancel := n.NIC().WithTimeout(bg, want)
			before := w.Now()
			_, err := endpoint.Call[int32, int32](ctx, c.ep, 0, 1, 100)
			cancel()
			if took := time.Duration(w.Now() - before); !errors.Is(err, context.DeadlineExceeded) || took < want || took > want+2*time.Millisecond {
				return fmt.Errorf("with a deadline of %v: %w after %v", want, err, took)
			}
		}
		for i := range int32(10) {
			if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, i); err != nil || got != i+1 {
				return fmt.Errorf("call %d: %d, %w", i, got, err)
			}
		}
		if !awake || len(c.returned) > 0 {
			return fmt.Errorf("awake %v, %d came back", awake, len(c.returned))
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestCallTypes: values that do not fit are found out, on either side.
func TestCallTypes(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{MaxMedium: 64}, func(s *party) {
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r string) (string, error) { return r + r, nil })
		endpoint.Serve(s.ep, 2, func(_ endpoint.Token, r endpoint.Name) (endpoint.Name, error) { r.ID++; return r, nil })
		endpoint.Serve(s.ep, 3, func(_ endpoint.Token, r int64) (int64, error) { return r, nil })
		endpoint.Serve(s.ep, 4, func(_ endpoint.Token, r []byte) ([]byte, error) { return nil, errors.New(string(make([]byte, 500))) })
	}, func(n *endpoint.Node, c *party) error {
		if err := endpoint.Serve(c.ep, 9, func(endpoint.Token, int) (map[int]int, error) { return nil, nil }); !errors.Is(err, endpoint.ErrArgument) {
			return fmt.Errorf("a result without a binary form: %w", err)
		}
		if _, err := endpoint.Call[int, int](bg, c.ep, 0, 1, 5); !errors.Is(err, endpoint.ErrArgument) {
			return fmt.Errorf("a request without a binary form: %w", err)
		}
		name := c.ep.Name()
		name.ID++
		if got, err := endpoint.Call[endpoint.Name, endpoint.Name](bg, c.ep, 0, 2, c.ep.Name()); err != nil || got != name {
			return fmt.Errorf("a name: %v, %w", got, err)
		}
		var remote *endpoint.RemoteError
		if _, err := endpoint.Call[string, string](bg, c.ep, 0, 1, string(make([]byte, 40))); !errors.As(err, &remote) {
			return fmt.Errorf("a result that is too long: %w", err)
		}
		if _, err := endpoint.Call[int32, int32](bg, c.ep, 0, 3, 1); !errors.As(err, &remote) {
			return fmt.Errorf("a request of another type: %w", err)
		}
		if _, err := endpoint.Call[[]byte, []byte](bg, c.ep, 0, 4, nil); !errors.As(err, &remote) || len(remote.Text) != 64 {
			return fmt.Errorf("a long error: %w", err)
		}
		if _, err := endpoint.Call[int64, int32](bg, c.ep, 0, 3, 1); err == nil {
			return errors.New("a result of another type was taken")
		}
		var back *endpoint.ReturnedError
		if _, err := endpoint.Call[string, string](bg, c.ep, 0, 1, string(make([]byte, 65))); !errors.As(err, &back) || back.Reason != endpoint.ReasonBadArgs {
			return fmt.Errorf("a request that is too long: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCallTellsCaller: a call that cannot be sent, or comes back, is an error of
// the call and of nothing else, even where a message that comes back ends the
// process.
func TestCallTellsCaller(t *testing.T) {
	ended := 0
	cfg := endpoint.Config{MaxMedium: 64, Exit: func(int) { ended++ }}
	err := pair(sim.Options{}, cfg, func(*party) {}, func(n *endpoint.Node, c *party) error {
		c.ep.SetReturnHandler(nil)
		nobody := c.ep.Name()
		nobody.ID = 999
		c.ep.Map(1, nobody, 7)
		for _, x := range []struct {
			what   string
			dest   int
			r      string
			reason endpoint.Reason
			here   bool
		}{
			{"too long", 0, string(make([]byte, 65)), endpoint.ReasonBadArgs, true},
			{"to an unbound index", 9, "", endpoint.ReasonBadEntry, true},
			{"of nothing", 0, "", endpoint.ReasonBadHandler, false},
			{"of nobody on this node", 1, "", endpoint.ReasonBadEndpoint, false},
		} {
			_, err := endpoint.Call[string, string](bg, c.ep, x.dest, 1, x.r)
			var here *endpoint.ReturnedError
			var there *endpoint.CallError
			switch {
			case x.here && (!errors.As(err, &here) || here.Reason != x.reason),
				!x.here && (!errors.As(err, &there) || there.Reason != x.reason || there.Err != nil):
				return fmt.Errorf("a call %s: %w", x.what, err)
			case ended > 0:
				return fmt.Errorf("a call %s ends the process", x.what)
			}
		}
		if returned := n.Stats().Returned; returned != (endpoint.Stats{}).Returned {
			return fmt.Errorf("calls were counted among the messages that came back: %v", returned)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRequestsPoll: a program that sends requests now and then, and always has a
// credit, never polls; all the same it accepts a connection, and runs the handler
// of what comes over it, within some of its requests.
func TestRequestsPoll(t *testing.T) {
	const soon = 8 // requests: four until the first looks, and the handshake takes a few looks
	w := newWorld(sim.Options{})
	cfg := endpoint.Config{Credits: endpoint.Credits{Short: 64}}
	done, asked, ran := false, false, 0
	w.node("sink", cfg, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
		w.board["sink"] = s.ep.Name()
		return s.serve(n, &done)
	})
	w.node("asker", cfg, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.Map(0, w.find("busy"), 5)
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		asked = true
		if err = c.serve(n, &done); len(c.returned) > 0 {
			return fmt.Errorf("the request came back: %+v", c.returned)
		}
		return err
	})
	w.node("busy", cfg, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetHandler(hEcho, func(endpoint.Token, []uint32, []byte) { ran++ })
		w.board["busy"] = c.ep.Name()
		c.ep.Map(0, w.find("sink"), 5)
		for sent := 0; ran == 0; {
			w.Sleep(100 * time.Millisecond) // it computes
			if err := c.ep.Request(bg, 0, hMute); err != nil {
				return err
			}
			if asked {
				sent++
			}
			if sent > soon {
				return fmt.Errorf("%d requests have not run the handler of one that waits", sent)
			}
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestAsyncLooks: a bulk request that must not wait is refused only if the answer
// that frees the credit has not come yet.
func TestAsyncLooks(t *testing.T) {
	w := newWorld(sim.Options{})
	w.pair(endpoint.Config{Credits: endpoint.Credits{Short: 1}}, func(s *party) {
		s.ep.SetSegment(make([]byte, 1000))
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hReply) })
	}, func(n *endpoint.Node, c *party) error {
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {})
		if err := c.ep.RequestBulkAsync(0, hEcho, payload, 0); err != nil {
			return err
		}
		if err := c.ep.RequestBulkAsync(0, hEcho, payload, 0); !errors.Is(err, endpoint.ErrInUse) {
			return fmt.Errorf("without a credit: %w", err)
		}
		for range 10 { // connects, and brings the answer to the interface
			w.Sleep(time.Millisecond)
			n.NIC().Poll()
		}
		for i := range 10 {
			if err := c.ep.RequestBulkAsync(0, hEcho, payload, 0); err != nil {
				return fmt.Errorf("request %d, when the answer to the one before has come: %w", i, err)
			}
			for range 10 {
				w.Sleep(time.Millisecond)
				n.NIC().Poll()
			}
		}
		if stalls := n.Stats().Stalls; stalls != 1 {
			return fmt.Errorf("%d stalls were counted", stalls)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// turns is the link of a server whose NIC several goroutines poll. While the
// server takes in a client each poll lasts so long that the NIC's lock goes from
// one who waits for it to the next, and the frame that ends the handshake comes so
// many polls after the answer to the request.
type turns struct {
	transport.Link
	after    atomic.Int32 // polls
	long     bool
	answered bool
	polls    int32 // since then
}

// turnLength is longer than the mutex lets a goroutine wait before it goes round.
const turnLength = 1_200_000 // ns

func (l *turns) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		l.answered = l.answered || ethertype.Kind(frames[i].Head[mutant.AtKind]) == ethertype.KindAccept
	}
	return l.Link.Send(frames)
}

func (l *turns) Recv(views [][]byte) (int, error) {
	for end := l.Now() + turnLength; l.long && l.Now() < end; {
		runtime.Gosched()
	}
	if l.answered {
		if l.polls++; l.polls < l.after.Load() {
			return 0, nil
		}
		l.long, l.answered, l.polls = false, false, 0
	}
	n, err := l.Link.Recv(views)
	for _, f := range views[:n] {
		l.long = l.long || ethertype.Kind(f[mutant.AtKind]) == ethertype.KindRequest
	}
	return n, err
}

// TestConnectedBetweenLooks: a connection stands, whoever drives the NIC when its
// handshake ends: other goroutines do while the server looks how far it is.
func TestConnectedBetweenLooks(t *testing.T) {
	var link *turns
	nics := linkNICs(t, "shm", func(side int, l transport.Link) transport.Link {
		if side == 1 {
			return l
		}
		link = &turns{Link: l}
		return link
	})
	k, err := newTalk(nics[0], nics[1])
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	ctx, stop := context.WithTimeout(bg, time.Minute)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() {
		for ctx.Err() == nil {
			k.s.b.WaitPoll(ctx)
		}
	})
	for range 2 {
		l, err := nics[0].Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { pollUntil(ctx, l) })
	}
	for i := range uint32(12) {
		link.after.Store(1 + int32(i)%6)
		if err := k.anew(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
}

// pollUntil polls a NIC by a listener that nobody knows of.
func pollUntil(ctx context.Context, l *vipl.Listener) {
	for ctx.Err() == nil {
		l.Poll()
	}
}

// anew has a request answered over a new connection.
func (k *talk) anew(ctx context.Context, id uint32) error {
	c := k.c
	if err := errors.Join(c.ep.Unmap(0), c.ep.Map(0, k.s.ep.Name(), talkTag)); err != nil {
		return err
	}
	if err := c.ep.Request(ctx, 0, hEcho, id, 0, ^id); err != nil {
		return err
	}
	err := c.until(k.nodes[1], "the reply", func() bool { return k.answered[id] > 0 || len(c.returned) > 0 })
	if err == nil && len(c.returned) > 0 {
		err = fmt.Errorf("request %d came back for %v: %w", id, c.returned[0].Reason, c.returned[0].Err)
	}
	return err
}

// TestExtraReceiveStory is the story for which there is one receive more than
// credits, between endpoints of one node, where every step happens at once. With
// one credit:
//
//   - The handler of a request replies, and looks at its payload still.
//   - The client handles the reply, which gives its credit back, and sends the
//     next request. That finds a receive, and not the one with the payload.
func TestExtraReceiveStory(t *testing.T) {
	for _, credits := range []endpoint.Credits{{Short: 1}, {Short: 3}, {Short: 1, Medium: 1, Bulk: 1}} {
		oneNode(t, endpoint.Config{Credits: credits}, func(n *endpoint.Node) error {
			c, err := newParty(n)
			if err != nil {
				return err
			}
			s, err := newParty(n)
			if err != nil {
				return err
			}
			const rounds = 20
			sent, handled, replies := 0, 0, 0
			var wrong error
			send := func() {
				if sent == rounds {
					return
				}
				if err := c.ep.RequestMedium(bg, 0, hEcho, pattern(make([]byte, 300), sent), uint32(sent)); err != nil {
					wrong = err
				}
				sent++
			}
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
				handled++
				t.ReplyMedium(hReply, data)
				if _, err := c.b.Poll(); err != nil {
					wrong = err
				}
				send()
				if !bytes.Equal(data, pattern(make([]byte, 300), int(args[0]))) {
					wrong = fmt.Errorf("the payload of request %d was overwritten in its handler", args[0])
				}
			})
			c.ep.Map(0, s.ep.Name(), 5)
			for range max(credits.Medium, credits.Short) { // all credits
				if credits.Medium == 0 || sent < credits.Medium {
					send()
				}
			}
			for handled < rounds {
				if k, err := s.b.Poll(); err != nil || k == 0 {
					return fmt.Errorf("%d of %d handled: %w", handled, rounds, err)
				}
			}
			c.b.Poll()
			if panics := n.Stats().Panics; panics > 0 || replies != rounds || len(c.returned) > 0 {
				return fmt.Errorf("%d panics, %d of %d replies, %d came back", panics, replies, rounds, len(c.returned))
			}
			return wrong
		})
	}
}
