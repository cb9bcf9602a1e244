package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// TestProviderWall: above the providers only the configuration, and the file that chooses
// a provider, know what a NIC is.
func TestProviderWall(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if strings.HasSuffix(i.Path.Value, `/vipl"`) {
				got = append(got, file)
			}
		}
	}
	if want := []string{"config.go", "open.go"}; !slices.Equal(got, want) {
		t.Errorf("%v import vipl, want %v", got, want)
	}
}

// TestEndpointsOfProviders: a provider hears of the beginning and the end of each
// endpoint, however it ends.
func TestEndpointsOfProviders(t *testing.T) {
	way := &idleWay{bell: make(chan struct{}, 1)}
	n := bareNode(way)
	var all [6]*waiting
	for i := range all {
		all[i] = newWaiting(t, n)
		if len(way.has) != i+1 || way.has[i] != all[i].ep.id {
			t.Fatalf("the provider knows of %v", way.has)
		}
	}
	for _, err := range []error{all[2].bundle.Free(), all[3].ep.Free(), all[3].bundle.Free()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint32{all[0].ep.id, all[1].ep.id, all[4].ep.id, all[5].ep.id}; !slices.Equal(way.has, want) {
		t.Errorf("the provider knows of %v, want %v", way.has, want)
	}
	if n.Close(); len(way.has) != 0 {
		t.Errorf("the node is closed, and the provider knows of %v", way.has)
	}
}

// frailWay is a provider whose connections swallow what is posted, and break
// when the test says so.
type frailWay struct {
	idleWay
	up provider.Half
}

type frailChannel struct{ sends [][]byte }

func newFrailChannel(s wire.Shape, at wire.Side) *frailChannel {
	ch := &frailChannel{make([][]byte, s.NumSends())}
	for i := range ch.sends {
		ch.sends[i] = make([]byte, s.Sends(i, at))
	}
	return ch
}

func (ch *frailChannel) Buffer(i int) []byte                 { return ch.sends[i] }
func (*frailChannel) Post(int, int, int)                     {}
func (*frailChannel) Idle(int) bool                          { return true }
func (*frailChannel) Grant(int, []byte) (wire.Window, error) { return wire.Window{}, nil }
func (*frailChannel) Revoke(int)                             {}
func (*frailChannel) Write(int, []byte, wire.Window, bool)   {}
func (*frailChannel) Writing(int) bool                       { return false }
func (*frailChannel) Land(int, int, int, []byte, bool) bool  { return false }
func (*frailChannel) Release(*provider.Packet)               {}
func (*frailChannel) Close()                                 {}

func (w *frailWay) Dial(_ Name, greeting wire.Hello, up provider.Half) (provider.Channel, error) {
	w.up = up
	return newFrailChannel(greeting.Shape, wire.Asking), nil
}

// breaks has the connection break in the next deliver.
func (w *frailWay) breaks(up provider.Half, reason Reason, err error) {
	w.batch = func() { up.Broken(reason, err) }
	w.Wake()
}

// TestReasonsOfProviders: messages come back for the reason that the provider
// gives, with its error, if it has one to give.
func TestReasonsOfProviders(t *testing.T) {
	own := errors.New("the card is on fire")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, reason := range wire.Reasons() {
		for _, cause := range []error{own, nil} {
			way := &frailWay{idleWay: idleWay{bell: make(chan struct{}, 1)}}
			ep := newWaiting(t, bareNode(way)).ep
			var back []Returned
			ep.SetReturnHandler(func(r *Returned) { back = append(back, *r) })
			ep.Map(0, Name{ID: 5, Incarnation: 1}, 7)
			if err := ep.Request(ctx, 0, 1); err != nil {
				t.Fatal(err)
			}
			way.breaks(way.up, reason, cause)
			for len(back) == 0 {
				if _, err := ep.bundle.WaitPoll(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if r := back[0]; r.Reason != reason || r.Err != cause {
				t.Errorf("a connection broke for %v (%v); the request came back for %v (%v)", reason, cause, r.Reason, r.Err)
			}
			if ep.clients.len() != 0 {
				t.Errorf("%v: the broken connection is still there", reason)
			}
		}
	}
}

// TestServersOfProviders: a server gets back the reply that nobody has got,
// unless the other side has ended the connection.
func TestServersOfProviders(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, reason := range wire.Reasons() {
		way := &frailWay{idleWay: idleWay{bell: make(chan struct{}, 1)}}
		n := bareNode(way)
		ep := newWaiting(t, n).ep
		var back []Returned
		ep.SetReturnHandler(func(r *Returned) { back = append(back, *r) })
		ep.SetHandler(1, func(t Token, _ []uint32, _ []byte) { t.ReplyBulk(2, make([]byte, 1000), 0) }) // is only announced
		h := wire.Hello{ID: ep.id, Incarnation: n.incarnation, Shape: wire.Shape{Slots: 1, Medium: 64}}
		up, refused := (*host)(n).Admit(&h)
		if refused != 0 {
			t.Fatal(refused)
		}
		(*host)(n).Attach(up, newFrailChannel(h.Shape, wire.Serving))
		p := &provider.Packet{Head: wire.Header{Kind: wire.KindShort, Handler: 1, Use: 1}, Body: []byte{}}
		way.batch = func() { up.Received(p) }
		way.Wake()
		if _, err := ep.bundle.WaitPoll(ctx); err != nil {
			t.Fatal(err)
		}
		way.breaks(up, reason, nil)
		n.mu.Lock()
		way.Deliver(false)
		n.mu.Unlock()
		for range 2 {
			ep.bundle.Poll()
		}
		if want := reason != ReasonBadEndpoint; want != (len(back) == 1) || want && (back[0].Reason != ReasonUnreachable || back[0].Op != OpReplyBulk) {
			t.Errorf("the connection broke for %v; came back: %+v", reason, back)
		}
		if ep.servers.len() != 0 {
			t.Errorf("%v: the broken connection is still there", reason)
		}
	}
}

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

// TestSet: values come in the order in which they were added, whichever have been removed.
func TestSet(t *testing.T) {
	var s set[int]
	var want []int
	for i := range 100 {
		s.add(i * 7919 % 100)
		if i%3 > 0 {
			want = append(want, i*7919%100)
		}
	}
	for i := 0; i < 100; i += 3 {
		s.remove(i * 7919 % 100)
	}
	if got := s.all(); !slices.Equal(got, want) || s.len() != len(want) {
		t.Errorf("%d values, %v, want %v", s.len(), got, want)
	}
}
