package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var seeding = seedtest.Flags("endpoint", 20)

var seeds = seeding.Each

func init() { endpoint.Seeds = seeds }

var bg = context.Background()

// quiet discards what nodes log.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// world is a simulated segment with a node on each station. Names are told
// through a board that all processes see.
type world struct {
	*sim.World
	errs     []error
	board    map[string]endpoint.Name
	stations map[string]*sim.Station
	left     int // processes that have not finished
}

func newWorld(opts sim.Options) *world {
	if opts.Limit == 0 {
		opts.Limit = 2 * time.Minute
	}
	return &world{World: sim.New(opts), board: map[string]endpoint.Name{}, stations: map[string]*sim.Station{}}
}

// node runs fn as a process with a node of its own. Errors that errors.Is
// finds errDead in are not reported.
func (w *world) node(name string, cfg endpoint.Config, fn func(n *endpoint.Node) error) {
	w.nodeOn(w.Station(name), name, cfg, fn)
}

// nodeOn is node on a station that there is already.
func (w *world) nodeOn(station *sim.Station, name string, cfg endpoint.Config, fn func(n *endpoint.Node) error) {
	w.stations[name] = station
	w.left++
	w.Go(name, func() {
		defer func() { w.left-- }()
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(len(name)) + uint64(name[len(name)-1])})
		if err == nil {
			cfg.NIC = nic
			if cfg.Logger == nil {
				cfg.Logger = quiet
			}
			var n *endpoint.Node
			if n, err = endpoint.Open(context.Background(), &cfg); err == nil {
				err = fn(n)
				n.Close()
			}
			nic.Close()
		}
		if err != nil && !errors.Is(err, errDead) {
			w.errs = append(w.errs, fmt.Errorf("%s at %v: %w", name, time.Duration(w.Now()-sim.Start), err))
		}
	})
}

var errDead = errors.New("this process is dead")

func (w *world) run() error {
	err := w.Run()
	return errors.Join(append(w.errs, err)...)
}

// find waits until a name is on the board.
func (w *world) find(name string) endpoint.Name {
	for {
		if n, ok := w.board[name]; ok {
			return n
		}
		if w.Sleep(100*time.Microsecond) != nil {
			return endpoint.Name{}
		}
	}
}

// party is an endpoint in a bundle of its own that accepts everything and keeps
// what came back.
type party struct {
	b        *endpoint.Bundle
	ep       *endpoint.Endpoint
	returned []endpoint.Returned
}

func newParty(n *endpoint.Node) (*party, error) {
	b, err := n.NewBundle(endpoint.Sequential)
	if err != nil {
		return nil, err
	}
	p := &party{b: b}
	if p.ep, err = b.NewEndpoint(); err != nil {
		return nil, err
	}
	p.ep.SetTag(endpoint.TagAll)
	p.ep.SetReturnHandler(func(r *endpoint.Returned) {
		kept := *r
		kept.Args = append([]uint32(nil), r.Args...)
		kept.Data = append([]byte(nil), r.Data...)
		p.returned = append(p.returned, kept)
	})
	return p, nil
}

// until polls until done, or for a minute of the node's time.
func (p *party) until(n *endpoint.Node, what string, done func() bool) error {
	ctx, cancel := n.NIC().WithTimeout(bg, time.Minute)
	defer cancel()
	for !done() {
		if _, err := p.b.WaitPoll(ctx); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
	return nil
}

// serve polls until done, though nothing may come any more.
func (p *party) serve(n *endpoint.Node, done *bool) error {
	for !*done {
		ctx, cancel := n.NIC().WithTimeout(bg, 10*time.Millisecond)
		_, err := p.b.WaitPoll(ctx)
		cancel()
		if errors.Is(err, endpoint.ErrClosed) && !*done { // the station has been killed
			return errDead
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return nil
}

// pair runs a server and a client, each with an endpoint. The server serves
// until the client has finished. setup is called before the server's name is
// known; the client has mapped the server to index 0.
func pair(opts sim.Options, cfg endpoint.Config, setup func(s *party), client func(n *endpoint.Node, c *party) error) error {
	w := newWorld(opts)
	w.pair(cfg, setup, client)
	return w.run()
}

func (w *world) pair(cfg endpoint.Config, setup func(s *party), client func(n *endpoint.Node, c *party) error) {
	done := false
	w.node("server", cfg, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		nodes.Store(s.b, n)
		setup(s)
		w.board["server"] = s.ep.Name()
		return s.serve(n, &done)
	})
	w.node("client", cfg, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		if err := c.ep.Map(0, w.find("server"), 7); err != nil {
			return err
		}
		return client(n, c)
	})
}

// pattern fills b with bytes that tell message i from every other.
func pattern(b []byte, i int) []byte {
	for k := range b {
		b[k] = byte(k*7 + i*13 + k>>8)
	}
	return b
}

// talk is a client that has a server answer requests of all sizes by replies of
// all sizes, one after another, until it is stopped. Each message says which it
// is, and has the content that belongs to that.
type talk struct {
	nodes    [2]*endpoint.Node
	s, c     *party
	handled  map[uint32]int // by request; of the server's goroutine
	answered map[uint32]int // of the client's
	wrong    [2]error
	replies  atomic.Uint64
	leave    atomic.Bool
	stop     context.CancelFunc
	ends     [2]chan error
	asks     chan struct{} // lets the client send some more
	buf      [2][2][]byte  // of each side, to compare with, and to send
}

const (
	talkKinds = 4 // short, medium, bulk in one message, bulk by RDMA
	talkMost  = 12_000
	talkTag   = 0x7a1c_0000_1234_0001
	talkParts = 8 // of a segment, which messages under way do not share
)

// talkSize returns how long the data of a message are.
func talkSize(kind, id uint32) int {
	switch kind % talkKinds {
	case 0:
		return 0
	case 3:
		return endpoint.DefaultMaxMedium + 1 + int(id*97%(talkMost-endpoint.DefaultMaxMedium))
	}
	return int(id * 37 % (endpoint.DefaultMaxMedium + 1))
}

func newTalk(server, client *vipl.NIC) (*talk, error) {
	k := &talk{handled: map[uint32]int{}, answered: map[uint32]int{}, stop: func() {}, asks: make(chan struct{}, talkKinds)}
	for i, nic := range []*vipl.NIC{server, client} {
		n, err := endpoint.Open(context.Background(), &endpoint.Config{NIC: nic, PeerTimeout: time.Hour, MaxConnections: 64, Logger: quiet})
		if err != nil {
			return nil, errors.Join(err, k.close())
		}
		k.nodes[i], k.ends[i] = n, make(chan error, 1)
		k.buf[i] = [2][]byte{make([]byte, talkMost+1), make([]byte, talkMost+1)}
	}
	var errs [2]error
	k.s, errs[0] = newParty(k.nodes[0])
	k.c, errs[1] = newParty(k.nodes[1])
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, k.close())
	}
	for _, p := range []*party{k.s, k.c} {
		p.ep.SetTag(talkTag)
		p.ep.SetSegment(make([]byte, talkParts*(talkMost+1)))
	}
	k.s.ep.SetHandler(hEcho, k.serve)
	k.c.ep.SetHandler(hReply, k.hear)
	return k, k.c.ep.Map(0, k.s.ep.Name(), talkTag)
}

func (k *talk) close() error {
	k.stop()
	for i := range k.nodes {
		if n := k.nodes[1-i]; n != nil {
			n.Close()
		}
	}
	return nil
}

// part is where bulk data of a message go.
func part(id uint32) uint64 { return uint64(id%talkParts) * (talkMost + 1) }

// want is what a message of a side holds, in memory of the other.
func (k *talk) want(side int, kind, id uint32) []byte {
	return pattern(k.buf[1-side][0][:talkSize(kind, id)], int(id)+side)
}

// content is the same in the side's own memory.
func (k *talk) content(side int, kind, id uint32) []byte {
	return pattern(k.buf[side][1][:talkSize(kind, id)], int(id)+side)
}

// serve handles a request.
func (k *talk) serve(t endpoint.Token, args []uint32, data []byte) {
	if len(args) != 3 || args[2] != ^args[0] {
		k.wrong[0] = fmt.Errorf("the server got arguments %x", args)
		return
	}
	id, kind := args[0], args[1]
	k.handled[id]++
	if !bytes.Equal(data, k.want(1, kind, id)) {
		k.wrong[0] = fmt.Errorf("request %d of kind %d came with %d other bytes", id, kind, len(data))
	}
	kind /= talkKinds
	out := k.content(0, kind, id)
	switch kind {
	case 0:
		t.Reply(hReply, args...)
	case 1:
		t.ReplyMedium(hReply, out, args...)
	default:
		t.ReplyBulk(hReply, out, part(id), args...)
	}
}

// hear handles a reply.
func (k *talk) hear(_ endpoint.Token, args []uint32, data []byte) {
	k.replies.Add(1)
	if len(args) != 3 || args[2] != ^args[0] {
		k.wrong[1] = fmt.Errorf("the client got arguments %x", args)
		return
	}
	id, kind := args[0], args[1]/talkKinds
	k.answered[id]++
	if !bytes.Equal(data, k.want(0, kind, id)) {
		k.wrong[1] = fmt.Errorf("reply %d of kind %d came with %d other bytes", id, kind, len(data))
	}
}

// start lets both sides go, each on a goroutine of its own.
func (k *talk) start() {
	ctx, stop := context.WithCancel(bg)
	k.stop = stop
	go func() {
		for {
			if _, err := k.s.b.WaitPoll(ctx); err != nil {
				k.ends[0] <- err
				return
			}
		}
	}()
	go func() { k.ends[1] <- k.ask() }()
}

// ask sends requests, as many at a time as there are credits.
func (k *talk) ask() error {
	for id := uint32(0); !k.leave.Load(); id++ {
		kind := id % (talkKinds * talkKinds)
		data := k.content(1, kind, id)
		ctx, cancel := k.nodes[1].NIC().WithTimeout(bg, time.Minute)
		var err error
		switch args := []uint32{id, kind, ^id}; kind % talkKinds {
		case 0:
			err = k.c.ep.Request(ctx, 0, hEcho, args...)
		case 1:
			err = k.c.ep.RequestMedium(ctx, 0, hEcho, data, args...)
		default:
			err = k.c.ep.RequestBulk(ctx, 0, hEcho, data, part(id), args...)
		}
		cancel()
		if err == nil && id%talkKinds == talkKinds-1 {
			<-k.asks
			err = k.c.until(k.nodes[1], "replies", func() bool { return k.replies.Load() == uint64(id)+1 })
		}
		if err != nil {
			return fmt.Errorf("request %d: %w", id, err)
		}
	}
	return k.c.until(k.nodes[1], "the last replies", func() bool { return k.replies.Load() == k.nodes[1].Stats().Sent })
}

// goOn lets the client send one request of each size, if it is not behind.
func (k *talk) goOn() {
	select {
	case k.asks <- struct{}{}:
	default:
	}
}

// await waits until so many replies have come.
func (k *talk) await(t *testing.T, replies uint64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); k.replies.Load() < replies; runtime.Gosched() {
		k.goOn()
		select {
		case err := <-k.ends[1]:
			t.Fatal(err)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("%d replies, want %d", k.replies.Load(), replies)
		}
	}
}

// finish ends both sides, and wants each request to have been handled once and
// answered once.
func (k *talk) finish() error {
	k.leave.Store(true)
	k.goOn()
	if err := <-k.ends[1]; err != nil {
		return err
	}
	k.stop()
	if err := <-k.ends[0]; !errors.Is(err, context.Canceled) {
		return err
	}
	sent := k.nodes[1].Stats().Sent
	for id := range uint32(sent) {
		if k.handled[id] != 1 || k.answered[id] != 1 {
			return fmt.Errorf("request %d was handled %d times and answered %d times", id, k.handled[id], k.answered[id])
		}
	}
	if n := len(k.s.returned) + len(k.c.returned); n > 0 || len(k.handled) > int(sent) {
		return fmt.Errorf("%d messages came back, %d of %d requests were handled", n, len(k.handled), sent)
	}
	return errors.Join(k.wrong[:]...)
}

// spy is an intruder that connects as any client does, and then leaves its NIC
// alone and goes on by frames that it makes itself.
type spy struct {
	*intruder
	node     *endpoint.Node // that it attacks
	link     *recorder
	from, to endpoint.Name
	right    ethertype.Header // of its last frame
	broken   uint64           // connections of the node, when this one began
	messages uint64           // as many as there may be in what it has sent
	frame    []byte
	views    [transport.MaxBatch][]byte
	heard    ethertype.Header
}

// spyMost is how long its messages are, so that they fit into a frame.
const spyMost = 1400 // bytes

func newSpy(nic *vipl.NIC, link *recorder, node *endpoint.Node, from, to endpoint.Name, seed uint64) (*spy, error) {
	x, err := newIntruder(nic, seed)
	from.Addr.MAC = nic.Addr().MAC // a name of another host would be refused
	return &spy{intruder: x, node: node, link: link, from: from, to: to}, err
}

// ready makes a new connection when the last is no more.
func (y *spy) ready() error {
	broken := y.node.Stats().Broken
	if y.vi != nil && broken == y.broken {
		return y.overhear()
	}
	y.broken = broken
	if err := y.newVI(); err != nil {
		return err
	}
	ctx, cancel := y.nic.WithTimeout(bg, time.Minute)
	defer cancel()
	if err := y.vi.Connect(ctx, y.to.Addr, endpoint.HelloFor(y.from, y.to, 4)); err != nil {
		return err
	}
	y.link.take(lastHeard)
	y.messages++
	if !y.say(endpoint.Message(endpoint.ClientKinds[0], 13, 0, 1, hostileTag, hostileTag, 0, 0, nil, nil)) {
		return errors.New("the connection of the spy broke before its first mutant")
	}
	for _, f := range y.link.take(0) {
		if h := new(ethertype.Header); parses(h, f) && h.Kind == ethertype.KindData {
			y.right = *h
			return nil
		}
	}
	return fmt.Errorf("the spy has not heard itself")
}

func parses(h *ethertype.Header, f []byte) bool {
	_, err := h.Parse(f)
	return err == nil
}

// overhear takes what comes for its NIC, so that it can acknowledge it, and
// learns from it how to be a better intruder.
func (y *spy) overhear() error {
	for {
		n, err := y.link.Recv(y.views[:])
		if n == 0 || err != nil {
			return err
		}
		for _, f := range y.views[:n] {
			payload, err := y.heard.Parse(f)
			if h := &y.heard; err == nil && h.DstPort == y.right.SrcPort && h.Kind.Sequenced() && h.Seq == y.right.Ack {
				y.right.Ack++
				if h.Kind == ethertype.KindData && h.Flags&ethertype.FlagPacked == 0 && h.Offset == 0 {
					y.learn(payload)
				}
			}
		}
	}
}

// next returns its next frame: a mutated message, or a write to where it may
// write, or not. Some of them are altered besides, and take no number: the next
// one has it. They are valid until the next call.
func (y *spy) next(m *mutant.Frames) []byte {
	h := y.right
	h.Seq, h.Msg = h.Seq+1, h.Msg+1
	h.Kind, h.Flags, h.Offset, h.Count = ethertype.KindData, ethertype.FlagLast, 0, 1
	f := append(y.frame[:0], make([]byte, ethertype.HeaderSize)...)
	if y.rng.IntN(16) == 0 {
		to, slot, size := y.target()
		h.Kind, h.Flags, h.Length = ethertype.KindRDMAWrite, ethertype.FlagLast|ethertype.FlagImmediate, uint32(size)
		f = append(f, make([]byte, ethertype.RDMASize)...)
		ethertype.RDMA{Addr: to.Addr, Handle: uint32(to.Handle), Immediate: slot}.Put(f[ethertype.HeaderSize:])
		f = append(f, y.mem[:size]...)
	} else {
		msg := y.mutant(hostileTag, endpoint.ClientKinds)
		f = append(f, msg[:min(len(msg), spyMost)]...)
		h.Length = uint32(len(f) - ethertype.HeaderSize)
	}
	h.Size = uint16(len(f) - ethertype.HeaderSize)
	h.Put(f)
	if y.rng.IntN(8) == 0 {
		to := [ethertype.HeaderSize]byte(f)
		f = mutant.Fit(m.Alter(f), to[:])
	} else {
		y.right = h
	}
	mutant.Reseal(f)
	y.frame = f
	y.messages += uint64(len(f)-ethertype.HeaderSize)/endpoint.BaseSize + 1
	return f
}

// forge makes frames come from the spy's NIC.
func (y *spy) forge(frames [][]byte) {
	info := y.link.Info()
	for _, f := range frames {
		copy(f[mutant.AtSrcMAC:], info.MAC[:])
		mutant.Block(f[mutant.AtSrcPort:], []byte{byte(info.Ports.Lo >> 8)})
		mutant.Reseal(f)
	}
}
