package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
)

// roughStory is a client and a server over a provider that uses all the freedom of the
// contract. One goroutine polls both.
type roughStory struct {
	nodes    [2]*Node // server, client
	eps      [2]*Endpoint
	rng      *rand.Rand
	mistakes bool
	sent     []roughFate // by request
	order    []uint32    // in which the server has handled them
	wrong    error
}

// roughFate is what has become of a request and its reply.
type roughFate struct {
	handled, returned, replied, replyReturned, refused int
	asks                                               bool // there is a reply
}

// once reports whether a request, of which the provider has mistaken nothing, has one end: it
// or its reply is handled, or it comes back, and its reply, too, if there was one.
func (f *roughFate) once() bool {
	switch {
	case f.handled == 0:
		return f.returned == 1 && f.replied+f.replyReturned == 0
	case f.asks:
		return f.replied+f.replyReturned == 1 && f.returned == f.replyReturned
	}
	return f.returned+f.replied+f.replyReturned == 0
}

const (
	roughRequest = 1
	roughReply   = 2
	roughParts   = 16   // of a segment, so that messages under way do not share any
	roughMost    = 3000 // bytes
	roughMedium  = 500  // bytes: what is longer is announced
)

func newRoughStory(seed uint64, rough providertest.Rough) (*roughStory, error) {
	r := &roughStory{rng: rand.New(rand.NewPCG(seed, 1)), mistakes: rough.Mistake > 0}
	seg := providertest.NewSegment(seed, rough)
	for i := range r.nodes {
		n, err := Open(context.Background(), &Config{MaxMedium: roughMedium, FailWithoutCredit: true, Seed: seed + 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			provider: func(up provider.Host, memory *provider.Budget, _ *provider.Corked) (provider.Provider, error) {
				return seg.Open(up, memory), nil
			}})
		if err != nil {
			return nil, err
		}
		b, err := n.NewBundle(Sequential)
		if err != nil {
			return nil, err
		}
		ep, err := b.NewEndpoint()
		if err != nil {
			return nil, err
		}
		ep.SetTag(9)
		if err := ep.SetSegment(make([]byte, roughParts*roughMost)); err != nil {
			return nil, err
		}
		r.nodes[i], r.eps[i] = n, ep
	}
	r.eps[0].SetHandler(roughRequest, r.serve)
	r.eps[1].SetHandler(roughReply, func(_ Token, args []uint32, data []byte) {
		r.sent[args[0]].replied++
		r.check(args, data, 1)
	})
	r.eps[0].SetReturnHandler(func(m *Returned) { r.back(m, func(f *roughFate) *int { return &f.replyReturned }) })
	r.eps[1].SetReturnHandler(func(m *Returned) { r.back(m, func(f *roughFate) *int { return &f.returned }) })
	return r, r.eps[1].Map(0, r.eps[0].Name(), 9)
}

// back notes a message that has come back.
func (r *roughStory) back(m *Returned, to func(*roughFate) *int) {
	f := &r.sent[m.Args[0]]
	switch m.Reason {
	case ReasonUnreachable:
		*to(f)++
	case ReasonBadTag, ReasonBadHandler:
		f.refused++
		fallthrough
	default:
		r.wrong = fmt.Errorf("%v %d came back for %v: %w", m.Op, m.Args[0], m.Reason, m.Err)
	}
}

// check compares what has come with what was sent.
func (r *roughStory) check(args []uint32, data []byte, by byte) {
	if want := roughData(args[0], int(args[1]), by); !bytes.Equal(data, want) {
		r.wrong = fmt.Errorf("message %d of %d bytes came with %d other ones", args[0], len(want), len(data))
	}
}

func roughData(id uint32, size int, by byte) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(id)*31 + byte(i)*7 + by
	}
	return b
}

// serve handles a request, which says how long its reply is to be; by 1, 2, 3 of what size.
func (r *roughStory) serve(t Token, args []uint32, data []byte) {
	id := args[0]
	r.sent[id].handled++
	if len(data) <= roughMedium { // a longer one counts from when its data has come
		r.order = append(r.order, id)
	}
	r.check(args, data, 0)
	size := int(args[2])
	out := []uint32{id, uint32(size)}
	switch data := roughData(id, size, 1); args[3] {
	case 1:
		out[1] = 0
		t.Reply(roughReply, out...)
	case 2:
		t.ReplyMedium(roughReply, data, out...)
	case 3:
		t.ReplyBulk(roughReply, data, uint64(id%roughParts)*roughMost, out...)
	}
}

// ask sends one request of some size, if there is a credit.
func (r *roughStory) ask() error {
	id := uint32(len(r.sent))
	r.sent = append(r.sent, roughFate{})
	size := r.rng.IntN(roughMedium + 1)
	args := []uint32{id, uint32(size), uint32(r.rng.IntN(roughMedium + 1)), uint32(r.rng.IntN(4))}
	if args[3] == 3 && r.rng.IntN(2) == 0 {
		args[2] = uint32(r.rng.IntN(roughMost))
	}
	r.sent[id].asks = args[3] > 0
	var err error
	switch r.rng.IntN(4) {
	case 0:
		args[1] = 0
		err = r.eps[1].Request(context.Background(), 0, roughRequest, args...)
	case 1:
		err = r.eps[1].RequestMedium(context.Background(), 0, roughRequest, roughData(id, size, 0), args...)
	case 2:
		err = r.eps[1].RequestBulkAsync(0, roughRequest, roughData(id, size, 0), uint64(id%roughParts)*roughMost, args...)
	default:
		args[1] = uint32(roughMedium + 1 + r.rng.IntN(roughMost-roughMedium-1))
		err = r.eps[1].RequestBulkAsync(0, roughRequest, roughData(id, int(args[1]), 0), uint64(id%roughParts)*roughMost, args...)
	}
	if errors.Is(err, ErrInUse) {
		r.sent = r.sent[:id]
		return nil
	}
	return err
}

func (r *roughStory) poll() error {
	for _, k := range r.rng.Perm(2) {
		if _, err := r.eps[k].Bundle().Poll(); err != nil {
			return err
		}
	}
	return nil
}

// quiet reports whether nothing is under way.
func (r *roughStory) quiet() bool {
	for c := range r.eps[1].clients.places {
		if c.used > 0 {
			return false
		}
	}
	return true
}

// run sends so many requests and waits until nothing is under way.
func (r *roughStory) run(requests int) error {
	for polls := 0; len(r.sent) < requests; polls++ {
		if polls > 100_000 {
			return fmt.Errorf("no credit comes back: %v", r.nodes[1].Snapshot())
		}
		if err := errors.Join(r.ask(), r.poll()); err != nil {
			return err
		}
	}
	for polls := 0; !r.quiet(); polls++ {
		if polls > 100_000 {
			return fmt.Errorf("requests do not end: %v", r.nodes[1].Snapshot())
		}
		if err := r.poll(); err != nil {
			return err
		}
	}
	for range 50 { // what comes late
		if err := r.poll(); err != nil {
			return err
		}
	}
	return r.judge()
}

// judge wants each message delivered or returned, once, and requests in order.
func (r *roughStory) judge() error {
	if r.wrong != nil {
		return r.wrong
	}
	for i := 1; i < len(r.order); i++ {
		if r.order[i] <= r.order[i-1] {
			return fmt.Errorf("request %d was handled after request %d", r.order[i], r.order[i-1])
		}
	}
	for id, f := range r.sent {
		switch {
		case f.handled > 1 || f.returned > 1 || f.replied > 1 || f.replyReturned > 1 || f.handled+f.returned == 0 || f.asks && f.replied+f.returned == 0:
			return fmt.Errorf("request %d: %+v", id, f)
		case !r.mistakes && !f.once():
			return fmt.Errorf("request %d, of which nothing was mistaken: %+v", id, f)
		}
	}
	for i, ep := range r.eps {
		if err := ep.SetSegment(nil); err != nil {
			return fmt.Errorf("side %d: %w", i, err)
		}
	}
	s, c := r.nodes[0].Stats(), r.nodes[1].Stats()
	if s.Violations+s.Panics+c.Panics+s.Broken+c.Broken > 0 || !r.mistakes && s.Strays+c.Strays > 0 {
		return fmt.Errorf("server %v; client %v", s, c)
	}
	return nil
}

// close closes both nodes, and wants the memory of connections back.
func (r *roughStory) close() error {
	for i := range r.nodes {
		if err := r.nodes[1-i].Close(); err != nil {
			return err
		}
		if taken := r.nodes[i].budget.Taken; i == 1 && taken != 0 {
			return fmt.Errorf("%d bytes for connections are still taken", taken)
		}
	}
	if taken := r.nodes[0].budget.Taken; taken != 0 {
		return fmt.Errorf("%d bytes for connections are still taken", taken)
	}
	return nil
}

// TestRough: over a provider that delivers in any order, refuses messages for a while,
// acknowledges late and returns single messages, every message is delivered or comes back,
// once, requests are handled in order, and nothing stays behind.
func TestRough(t *testing.T) {
	for name, rough := range map[string]providertest.Rough{
		"any order": {}, "refused for a while": {Nack: 40}, "returned": {Nack: 10, Return: 2},
	} {
		t.Run(name, func(t *testing.T) {
			came := 0
			Seeds(t, 20, func(seed uint64) error {
				r, err := newRoughStory(seed, rough)
				if err != nil {
					return err
				}
				err = r.run(200)
				for _, f := range r.sent {
					came += f.returned + f.replyReturned
				}
				return errors.Join(err, r.close())
			})
			if (came > 0) != (rough.Return > 0) {
				t.Errorf("%d messages came back", came)
			}
		})
	}
}

// TestRoughMistakes: a provider may take a message for lost that has arrived. It may then
// be handled and come back besides, but neither twice, and the connection goes on.
func TestRoughMistakes(t *testing.T) {
	Seeds(t, 20, func(seed uint64) error {
		r, err := newRoughStory(seed, providertest.Rough{Nack: 10, Return: 1, Mistake: 3})
		if err != nil {
			return err
		}
		return errors.Join(r.run(200), r.close())
	})
}

// TestNothingArrives: when every message comes back, so that the server cannot be told to
// skip the requests, the connection breaks, and every request comes back once.
func TestNothingArrives(t *testing.T) {
	Seeds(t, 20, func(seed uint64) error {
		r, err := newRoughStory(seed, providertest.Rough{Return: 100})
		if err != nil {
			return err
		}
		for range 2000 {
			if err := errors.Join(r.ask(), r.poll()); err != nil {
				return err
			}
		}
		for range 100 {
			if err := r.poll(); err != nil {
				return err
			}
		}
		for id, f := range r.sent {
			if f != (roughFate{returned: 1, asks: f.asks}) {
				return fmt.Errorf("request %d: %+v", id, f)
			}
		}
		if s := r.nodes[1].Stats(); s.Broken == 0 || len(r.sent) < 20 || r.wrong != nil || !r.quiet() {
			return fmt.Errorf("%d requests came back, %d connections broke: %w", len(r.sent), s.Broken, r.wrong)
		}
		return r.close()
	})
}
