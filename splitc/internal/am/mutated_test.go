package am

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestMillionMutated: a million messages, each right but for a few bits of its arguments,
// their number or the length of its data, of a rank that the run knows. The owner does what
// they say within its heap, refuses it, or finds them garbled; no byte beside the heap or
// beside what operations wait for changes, and the count of operations stays right.
func TestMillionMutated(t *testing.T) {
	rounds := 1_000_000
	if !need.Full() {
		rounds = 50_000
	}
	m := newMutator(rounds)
	open := func(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
		cfg.Heap = m.memory[margin:][:layertest.FoeHeap:layertest.FoeHeap]
		opened, err := Open(ctx, cfg)
		if err == nil {
			m.layer = opened.(*Layer)
			err = errors.Join(m.layer.ep.SetHandler(hNudge, m.requests), m.layer.ep.SetHandler(hStoreDone, m.replies))
		}
		return opened, err
	}
	once := func(t *testing.T, _ int, run func(seed uint64) error) {
		if err := run(1); err != nil {
			t.Fatal(err)
		}
	}
	layertest.Hostile(t, once, &layertest.Hostility{Open: open, Attack: m.attack, MaxControl: layer.MaxControl})
	if m.wrong != nil || m.good+m.garbled != rounds {
		t.Fatalf("%d of %d messages were taken: %v", m.good+m.garbled, rounds, m.wrong)
	}
	for what, b := range map[string][]byte{"before the heap": m.memory[:margin], "behind the heap": m.memory[margin+layertest.FoeHeap:],
		"before what operations wait for": m.results[:margin], "behind what operations wait for": m.results[len(m.results)-margin:]} {
		if len(bytes.Trim(b, "\xa5")) != 0 {
			t.Errorf("memory %s has changed", what)
		}
	}
	if m.good == 0 || m.garbled == 0 || m.refused == 0 || m.ended == 0 || m.layer.count.Stored == 0 {
		t.Errorf("%d good, %d garbled, %d refused, %d operations ended, %d bytes stored: want some of each", m.good, m.garbled, m.refused, m.ended, m.layer.count.Stored)
	}
}

// margin is what lies beside memory that may change, and longestGet the most that an
// operation waits for.
const (
	margin     = 4096
	longestGet = 2*segment + 100
)

// mutator has the handlers of a layer take messages: half of them in place of the first nudge
// that comes, most of these requests, and half in place of the first reply to a store, most of
// these replies, since a reply counts only if it is one.
type mutator struct {
	rounds  int
	rng     *rand.Rand
	layer   *Layer
	memory  []byte // with the heap in it
	results []byte // with what operations wait for in it
	data    []byte
	args    [endpoint.MaxShort]uint32
	numbers []uint32 // of operations begun, the latest ones
	asked   bool
	done    bool
	wrong   error

	good, garbled, ended int
	refused              uint64
}

func newMutator(rounds int) *mutator {
	return &mutator{rounds: rounds, rng: rand.New(rand.NewPCG(11, 12)), memory: bytes.Repeat([]byte{0xa5}, layertest.FoeHeap+2*margin),
		results: bytes.Repeat([]byte{0xa5}, longestGet+2*margin), data: bytes.Repeat([]byte{0x5a}, endpoint.DefaultMaxMedium)}
}

// attack is a rank that does as it should, and nudges the other one.
func (m *mutator) attack(f *layertest.Foe, c layer.Config) error {
	defer func() { f.Over = true }()
	l, err := Open(context.Background(), c)
	if err != nil {
		return err
	}
	defer l.Close()
	for err == nil && !f.Done {
		if f.Over = f.Over || m.done; !f.Over {
			_, err = l.(*Layer).Nudge(0)
		}
		if err == nil {
			err = l.Poll()
		}
		if err == nil {
			err = f.Sleep(time.Millisecond)
		}
	}
	return err
}

// requests is the handler of nudges, and replies that of replies to stores.
func (m *mutator) requests(t endpoint.Token, _ []uint32, _ []byte) {
	if !m.asked {
		m.asked = true
		m.run(t, hHello, hGot)
	}
}

func (m *mutator) replies(t endpoint.Token, _ []uint32, _ []byte) {
	if m.asked && !m.done {
		m.done = true
		m.run(t, hGot, handlersEnd)
	}
}

// run has handlers take messages, most of kinds from first to before end.
func (m *mutator) run(t endpoint.Token, first, end int) {
	l, hs := m.layer, m.layer.handlers()
	controls := l.controls
	for i := 0; i < m.rounds/2 && m.wrong == nil; i++ {
		if l.count.Outstanding < 48 {
			m.begin()
		}
		l.controls = 1
		was := l.count.Outstanding
		kind := first + m.rng.IntN(end-first)
		if m.rng.IntN(8) == 0 {
			kind = hHello + m.rng.IntN(handlersEnd-hHello)
		}
		args, data := m.message(kind)
		if hs[kind](t, args, data) {
			m.good++
		} else {
			m.garbled++
		}
		m.ended += was - l.count.Outstanding
		if known := len(l.ops.all) - len(l.ops.free); l.count.Outstanding != known {
			m.wrong = fmt.Errorf("%d operations are outstanding, and %d known, after handler %d of %d and %d bytes", l.count.Outstanding, known, kind, args, len(data))
		}
		if due := l.due(); l.ops.due[1] != due {
			m.wrong = fmt.Errorf("%d requests are counted as not answered, and %d are not, after handler %d", l.ops.due[1], due, kind)
		}
		l.err = nil // of an operation that was refused
	}
	l.controls, m.refused = controls, l.stats.Refused
}

// due returns how many replies the operations of a layer wait for.
func (l *Layer) due() (n int) {
	for _, op := range l.ops.all {
		if op.kind != opNone {
			n += op.due
		}
	}
	return n
}

// begin begins an operation.
func (m *mutator) begin() {
	l, dst := m.layer, m.results[margin:len(m.results)-margin]
	var number uint32
	switch kind := uint8(opGet + m.rng.IntN(3)); kind {
	case opGet:
		dst = dst[:1+m.rng.IntN(len(dst))]
		if m.rng.IntN(2) == 0 {
			dst = dst[:1+m.rng.IntN(min(shortBytes, len(dst)))]
		}
		number = l.ops.begin(&l.count, opGet, 1, dst, pieces(len(dst)))
	case opPut:
		number = l.ops.begin(&l.count, opPut, 1, nil, 1+m.rng.IntN(3))
	default:
		number = l.ops.begin(&l.count, opCall, 1, dst[:layer.MaxCall], 1)
	}
	for range l.ops.all[place(number)].left {
		l.ops.asked(number)
	}
	if m.numbers = append(m.numbers, number); len(m.numbers) > 64 {
		m.numbers = m.numbers[1:]
	}
}

// message makes a message of a kind, and changes some of it.
func (m *mutator) message(kind int) (args []uint32, data []byte) {
	rng := m.rng
	op, off, words := m.numbers[rng.IntN(len(m.numbers))], uint32(rng.IntN(layertest.FoeHeap)), 1+rng.IntN(shortWords)
	var n int
	switch kind {
	case hHello:
		n = copy(m.args[:], []uint32{1})
	case hControlMedium, hAskMedium, hToldMedium:
		n = copy(m.args[:], []uint32{1, m.layer.talks[1].due + uint32(rng.IntN(layer.MaxControls))})
	case hGet:
		n = copy(m.args[:], []uint32{op, 0, off, 0, uint32(rng.IntN(2 * shortBytes))})
	case hPut, hStore:
		n = words + copy(m.args[:], []uint32{op, off, 0, uint32(4 * words)})
	case hPutMedium, hStoreMedium:
		n = copy(m.args[:], []uint32{op, off, 0})
	case hCall:
		n = copy(m.args[:], []uint32{op, 1, 1})
	case hControl, hAsk, hTold:
		n = words + copy(m.args[:], []uint32{1, m.layer.talks[1].due + uint32(rng.IntN(layer.MaxControls)), uint32(4 * words)})
	case hGot:
		n = words + copy(m.args[:], []uint32{op, 0, uint32(4 * words)})
	case hGotMedium:
		n = copy(m.args[:], []uint32{op, uint32(rng.IntN(3))})
	case hPutDone, hReturn:
		n = copy(m.args[:], []uint32{op})
	case hRefused:
		n = copy(m.args[:], []uint32{op, uint32(opGet + rng.IntN(2))})
	}
	for range rng.IntN(4) {
		m.args[rng.IntN(max(n, 1))] ^= 1 << rng.IntN(32)
	}
	if rng.IntN(8) == 0 {
		n = rng.IntN(len(m.args) + 1)
	}
	data = m.data[:[]int{rng.IntN(layer.MaxCall + 1), rng.IntN(len(m.data) + 1), segment}[rng.IntN(3)]]
	return m.args[:n], data
}

// posers is a job of three ranks, of which rank 1 says to rank 2 that it is rank 0.
type posers struct {
	*sim.World
	early bool // before rank 0 can be found, and else before rank 0 says so
	cards []*lanai.Card
	posed bool
	heard []string // by rank 2
	ended int
	errs  []error
}

// TestPoser: a rank says that it is another one, before that does. It is a stray, and so is what
// it sends in the other's name, who is served.
func TestPoser(t *testing.T) {
	for _, early := range []bool{true, false} {
		for _, cards := range []bool{false, true} {
			t.Run(fmt.Sprintf("early=%v,cards=%v", early, cards), func(t *testing.T) {
				p := &posers{World: sim.New(sim.Options{Limit: 10 * time.Minute}), early: early}
				var err error
				if cards {
					p.cards, err = layertest.Cards(p.World, 3)
				}
				for me := range 3 {
					at := p.Station(fmt.Sprint("rank ", me))
					p.Go(at.String(), func() {
						if err := p.rank(at, me); err != nil {
							p.errs = append(p.errs, fmt.Errorf("rank %d: %w", me, err))
						}
					})
				}
				if err = errors.Join(append(p.errs, err, p.Run())...); err != nil {
					t.Error(err)
				}
				slices.Sort(p.heard)
				if want := []string{"0 rank 0", "1 rank 1"}; !slices.Equal(p.heard, want) {
					t.Errorf("rank 2 has heard %q, want %q", p.heard, want)
				}
			})
		}
	}
}

// Call and Control are the side above of rank 2.
func (p *posers) Call(int, uint32, []byte, []byte) int { return 0 }
func (p *posers) Control(from int, msg []byte) {
	p.heard = append(p.heard, fmt.Sprint(from, " ", string(msg)))
}

func (p *posers) rank(at *sim.Station, me int) error {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: at, Seed: uint64(me) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	ctx := context.Background()
	m, err := job.Open(ctx, &job.Config{Job: "posers", Rank: me, Size: 3, NIC: nic}, job.Program{Name: "posers", Version: 1})
	if err != nil {
		return err
	}
	watch := layer.NewWatch(nic, m, time.Minute)
	defer watch.End()
	c := layer.Config{Member: m, NIC: nic, Rank: me, Procs: 3, HeapSize: 4096, Handler: p, Watch: watch, Logger: slog.New(slog.DiscardHandler)}
	if p.cards != nil {
		c.Card = p.cards[me]
	}
	err = p.program(ctx, c)
	if err == nil {
		return m.Leave(ctx)
	}
	m.Fail(err)
	return err
}

func (p *posers) program(ctx context.Context, c layer.Config) error {
	switch {
	case c.Rank == 1:
		if err := p.pose(ctx, c); err != nil {
			return err
		}
		p.posed = true
	case c.Rank == 0 && p.early:
		for !p.posed {
			if err := p.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
	}
	opened, err := Open(ctx, c)
	if err != nil {
		return err
	}
	defer opened.Close()
	if c.Rank < 2 {
		err = opened.Control(ctx, 2, fmt.Appendf(nil, "rank %d", c.Rank))
	}
	c.Watch.Begin()
	for p.ended++; err == nil && (p.ended < 3 || len(p.heard) < 2); {
		if err = opened.Wait(c.Watch.Slice()); err == nil {
			err = c.Watch.Check(ctx)
		}
	}
	if n := opened.Stats().Strays; err == nil && c.Rank == 2 && n != 2 {
		err = fmt.Errorf("%d messages were strays, want 2", n)
	}
	return err
}

// pose says to rank 2 that this is rank 0, and a message in its name.
func (p *posers) pose(ctx context.Context, c layer.Config) error {
	if !p.early { // rank 0 waits for rank 1, and rank 2 finds rank 0
		if err := p.Sleep(time.Second); err != nil {
			return err
		}
	}
	cfg := endpoint.Config{NIC: c.NIC, Card: c.Card, Credits: credits}
	if c.Card != nil {
		cfg.NIC = nil
	}
	n, err := endpoint.Open(ctx, &cfg)
	if err != nil {
		return err
	}
	defer n.Close()
	l := &Layer{cfg: c, node: n}
	name, err := n.Find(ctx, l.word(2))
	if err != nil {
		return err
	}
	bundle, err := n.NewBundle(endpoint.Sequential)
	if err != nil {
		return err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return err
	}
	ep.SetTag(l.tag())
	answered := 0
	err = errors.Join(ep.SetHandler(hStoreDone, func(endpoint.Token, []uint32, []byte) { answered++ }),
		ep.SetHandler(hControlDone, func(endpoint.Token, []uint32, []byte) { answered++ }), ep.Map(0, name, l.tag()))
	if err == nil {
		err = ep.Request(ctx, 0, hHello, 0)
	}
	if err == nil {
		err = ep.Request(ctx, 0, hControl, 0, 0, 4, 0x65736f70)
	}
	for i := 0; i < 500 && err == nil; i++ {
		if _, err = bundle.Poll(); err == nil {
			err = p.Sleep(time.Millisecond)
		}
	}
	if err == nil && answered > 0 {
		err = errors.New("rank 2 has answered as if this were rank 0")
	}
	return err
}
