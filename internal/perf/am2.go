package perf

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/endpoint"
)

// Handlers of the measurement.
const (
	amPing  = 1 // the server answers with amPong of the same size
	amPong  = 2
	amTake  = 3 // answers by amTaken
	amTaken = 4
	amOver  = 5 // the client has all answers
)

// The kinds of messages. The size of a message determines its kind.
const (
	kindShort  = "short"  // arguments alone
	kindMedium = "medium" // a payload for the handler
	kindBulk   = "bulk"   // data for the segment
)

func amKind(size int) string {
	switch {
	case size <= 4*endpoint.MaxShort:
		return kindShort
	case size <= endpoint.DefaultMaxMedium:
		return kindMedium
	}
	return kindBulk
}

// amStack has one endpoint on each side.
type amStack struct{}

// Cases is part of Stack. The rate depends on the number of requests in flight, so it is measured
// with each of the plan's credits. LogP models messages that consist of one frame, so it has no
// bulk messages.
func (amStack) Cases(p *Plan, test string, mtu, size int) []Case {
	kind, credits := amKind(size), p.Credits
	if test == LogP && kind == kindBulk {
		return nil
	}
	if test != Rate {
		credits = credits[:1]
	}
	var cases []Case
	for _, link := range p.Links {
		for _, wait := range p.Waits {
			for _, n := range credits {
				cases = append(cases, Case{Stack: "am2", Test: test, Reliability: "delivery",
					Wait: wait, Link: link, Kind: kind, Credits: n, MTU: mtu, Size: size})
			}
		}
	}
	return cases
}

// amConn is one end. Only the client has a translation.
type amConn struct {
	on     *base
	node   *endpoint.Node
	forget func()
	bundle *endpoint.Bundle
	ep     *endpoint.Endpoint
	size   int
	kind   string
	args   []uint32 // arguments of a short message
	bufs   [][]byte
	next   int
	space  uint64 // size of the peer's segment; bulk messages go to consecutive places in it
	pongs  int    // answers that the client has received
	taken  int    // messages that the server has received
	over   int    // number of streams that the client reported as completely answered
	back   error
	pause  func(ns int64) (took int64)
}

// Open implements Stack. The server sends its endpoint's name to the client.
func (amStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	on, err := h.openBase(ctx, c)
	if err != nil {
		return nil, err
	}
	a, err := newAMConn(h, on, c)
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	return a, nil
}

// newAMConn creates an end on a NIC or card. If there is no error, the end owns the NIC or card.
func newAMConn(h *Half, on *base, c Case) (a *amConn, err error) {
	a = &amConn{on: on, size: c.Size, kind: amKind(c.Size)}
	a.pause = func(ns int64) int64 { return pause(on.Now, ns) }
	if a.node, err = endpoint.Open(context.Background(), &endpoint.Config{NIC: on.nic, Card: on.endpoints, Credits: endpoint.Credits{Short: c.Credits}}); err != nil {
		return nil, err
	}
	if err = a.meet(h); err != nil {
		return nil, errors.Join(err, a.node.Close())
	}
	a.forget = h.watch(Opened{NIC: on.nic, Node: a.node})
	return a, nil
}

func (a *amConn) meet(h *Half) (err error) {
	if a.bundle, err = a.node.NewBundle(endpoint.Sequential); err != nil {
		return err
	}
	if a.ep, err = a.bundle.NewEndpoint(); err != nil {
		return err
	}
	a.ep.SetTag(endpoint.TagAll)
	a.ep.SetReturnHandler(func(r *endpoint.Returned) {
		a.back = fmt.Errorf("perf: am2: message returned to sender: %v (%v)", r.Reason, r.Err)
	})
	a.ep.SetHandler(amPing, func(t endpoint.Token, args []uint32, data []byte) { a.pong(t, args, data) })
	a.ep.SetHandler(amPong, func(endpoint.Token, []uint32, []byte) { a.pongs++ })
	a.ep.SetHandler(amTake, func(t endpoint.Token, _ []uint32, _ []byte) { a.taken++; t.Reply(amTaken) })
	a.ep.SetHandler(amTaken, func(endpoint.Token, []uint32, []byte) { a.pongs++ })
	a.ep.SetHandler(amOver, func(endpoint.Token, []uint32, []byte) { a.over++ })
	if a.kind == kindShort {
		a.args = make([]uint32, (a.size+3)/4)
	} else if a.bufs, err = a.on.buffers(a.size); err != nil {
		return err
	}
	if a.kind == kindBulk {
		a.space = uint64(a.size) * uint64(len(a.bufs))
		segment, err := a.on.memory(int(a.space))
		if err != nil {
			return err
		}
		if err := a.ep.SetSegment(segment); err != nil {
			return err
		}
	}
	name := ""
	if h.server {
		name = a.ep.Name().String()
	}
	if name, err = h.Exchange(name); err != nil || h.server {
		return err
	}
	to, err := endpoint.ParseName(name)
	if err != nil {
		return err
	}
	return a.ep.Map(0, to, endpoint.TagAll)
}

// pong answers with a message of the request's size.
func (a *amConn) pong(t endpoint.Token, args []uint32, data []byte) {
	a.taken++
	switch a.kind {
	case kindShort:
		t.Reply(amPong, args...)
	case kindMedium:
		t.ReplyMedium(amPong, data)
	default:
		t.ReplyBulk(amPong, data, 0)
	}
}

// send sends one message of the case's size.
func (a *amConn) send(ctx context.Context, handler uint8) error {
	if a.kind == kindShort {
		return a.ep.Request(ctx, 0, handler, a.args...)
	}
	i := a.next
	if a.next++; a.next == len(a.bufs) {
		a.next = 0
	}
	if a.kind == kindMedium {
		return a.ep.RequestMedium(ctx, 0, handler, a.bufs[i])
	}
	if handler == amPing {
		return a.ep.RequestBulk(ctx, 0, handler, a.bufs[i], uint64(i)*uint64(a.size))
	}
	for {
		err := a.ep.RequestBulkAsync(0, handler, a.bufs[i], uint64(i)*uint64(a.size))
		if !errors.Is(err, endpoint.ErrInUse) {
			return err
		}
		if _, err := a.bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
}

// until runs handlers until the client has received pongs answers.
func (a *amConn) until(ctx context.Context, pongs int) error {
	for a.pongs < pongs && a.back == nil {
		if _, err := a.bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
	return a.back
}

// PingPong is part of Conn.
func (a *amConn) PingPong(ctx context.Context, rtt []int64) error {
	a.pongs = 0
	last := a.on.Now()
	for i := range rtt {
		if err := a.send(ctx, amPing); err != nil {
			return err
		}
		if err := a.until(ctx, i+1); err != nil {
			return err
		}
		now := a.on.Now()
		rtt[i] = now - last
		last = now
	}
	return a.finish(ctx)
}

// finish makes the server's serve return.
func (a *amConn) finish(ctx context.Context) error { return a.ep.Request(ctx, 0, amOver) }

// Echo is part of Conn.
func (a *amConn) Echo(ctx context.Context, n int) error { return a.serve(ctx, n) }

// serve runs handlers until n messages have arrived and the client has received all answers. It
// must continue after the last handler has run, because answers may still need polls: long ones to
// finish, and short ones that wait to be coalesced.
func (a *amConn) serve(ctx context.Context, n int) error {
	for (a.taken < n || a.over == 0) && a.back == nil {
		if _, err := a.bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
	a.taken -= n
	a.over--
	return a.back
}

// Stream implements Conn. The answers return the credits, and prove that all messages have arrived.
func (a *amConn) Stream(ctx context.Context, n int) (int, error) {
	a.pongs = 0
	for range n {
		if err := a.send(ctx, amTake); err != nil {
			return 0, err
		}
	}
	if err := a.until(ctx, n); err != nil {
		return 0, err
	}
	return n, a.finish(ctx)
}

// Sink is part of Conn.
func (a *amConn) Sink(ctx context.Context, n int) error { return a.serve(ctx, n) }

// Counters is part of Conn.
func (a *amConn) Counters() Counters { return a.on.counters() }

// Close is part of Conn.
func (a *amConn) Close() error {
	a.forget()
	return errors.Join(a.node.Close(), a.on.Close())
}

// Bursts implements burster. It pauses before each burst, so that a receiver that sleeps when idle
// is asleep. Then it warms up the sender, which may have slept until the last answer arrived.
// Within bursts of long delays the sender is warm too.
func (a *amConn) Bursts(ctx context.Context, all []burst, note func(b burst, sent, answered int64)) error {
	err := eachBurst(all, func() { a.pause(int64(sweepRest)) }, func(n int, ns int64) (sent, answered int64, err error) {
		return a.burst(ctx, n, ns)
	}, note)
	if err != nil {
		return err
	}
	return a.finish(ctx)
}

// burst sends n requests with pauses.
func (a *amConn) burst(ctx context.Context, n int, ns int64) (sent, answered int64, err error) {
	a.pongs = 0
	start, over := a.on.Now(), int64(0)
	for range n {
		if err := a.send(ctx, amPing); err != nil {
			return 0, 0, err
		}
		if ns == 0 {
			continue
		}
		over += a.pause(ns) - ns
	}
	sent = a.on.Now() - start - over
	err = a.until(ctx, n)
	return sent, a.on.Now() - start, err
}
