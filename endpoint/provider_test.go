package endpoint

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
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
func (*frailChannel) Write(int, []byte, wire.Window)         {}
func (*frailChannel) Writing(int) bool                       { return false }
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
	for _, reason := range Reasons() {
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
	for _, reason := range Reasons() {
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
