package am

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
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
