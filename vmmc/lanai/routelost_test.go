package lanai_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

const (
	cutSessions = 12               // of each importer with each exporter
	cutEnd      = 30 * time.Second // an operation that takes longer has no end
	cutSlots    = 64               // of short messages, a word each, at the beginning of a board
	cutBoard    = 12000
	cutMoved    = 100 // number of exports that are redirected, behind the importer's
	cutNotes    = 100 // notifications in a row
)

// TestRouteLost: while cards lose their routes for a while, as they do when a mapper has found
// nobody, imports are made and given up, exports taken back and redirected, and messages sent,
// with notifications and without. Each of these ends. What an import has taken before a message
// that has arrived is there, too; notifications come while it holds. In the end importers are
// known to have gone, and nothing is left.
func TestRouteLost(t *testing.T) {
	many := 60
	if !need.Full() { // goroutines of a simulated network run one at a time
		many = 16
	}
	seeds(t, many, func(seed uint64) error {
		s := &cutting{network: newNetwork(t, myrinet.Options{Seed: seed}), t: t, arena: arena{rng: rand.New(rand.NewPCG(seed, 7))}, hosts: 2 + int(seed%2)}
		s.cfg.PeerTimeout = []time.Duration{5, 20, 1000}[seed/2%3] * time.Millisecond
		s.kills = seed%4 == 3
		return s.run()
	})
}

// cutting is the hosts of that test.
type cutting struct {
	*network
	t   testing.TB
	cfg lanai.Config
	arena
	hosts    int
	kills    bool
	over     bool // exporters stop
	quiet    bool // the cutter stops
	users    int  // importers that are at work
	procs    [3]*member
	boards   [3][3][]*cutBoardOf
	handled  [3][3]int // notifications, by exporter and importer
	sessions uint64
	count    struct{ imports, sends, failed, notes, unexports, redirects, kills int }
	errs     []error
}

// member is a process, of one life of its host.
type member struct {
	*vmmc.Process
	h      *lanai.Card
	dead   bool
	active int
}

// cutBoardOf is an export, with all memory that it has had.
type cutBoardOf struct {
	memory [][]byte
	kept   []byte // what it was when it was taken back
	export *vmmc.Export
}

func (s *cutting) fail(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf("at %v: "+format, append([]any{time.Duration(s.Now())}, args...)...))
}

func (s *cutting) limit(h *lanai.Card, d time.Duration) (context.Context, context.CancelFunc) {
	return h.WithTimeout(context.Background(), d)
}

func (s *cutting) sleep(d time.Duration) { _ = s.Sleep(time.Duration(s.rng.Int64N(int64(d)))) }

func (s *cutting) run() error {
	for i := range s.hosts {
		s.open(i)
	}
	s.Go("cutter", s.cut)
	if s.kills {
		s.Go("killer", s.kill)
	}
	s.Go("end", s.end)
	if err := s.World.Run(); err != nil {
		s.errs = append(s.errs, err)
	}
	if c := &s.count; s.errs == nil && (c.imports == 0 || c.sends == c.failed || c.notes == 0 || c.redirects == 0) {
		s.fail("%+v: want some of each", *c)
	}
	return errors.Join(s.errs...)
}

// cut has cards lose their routes.
func (s *cutting) cut() {
	for !s.quiet {
		s.sleep(400 * time.Microsecond)
		i := s.rng.IntN(s.hosts)
		h := s.network.hosts[i]
		if err := h.SetRoutes(nil); err != nil {
			s.fail("%v", err)
		}
		_ = s.Sleep(time.Duration(s.rng.Int64N(1 << s.rng.IntN(26))))
		if err := h.SetRoutes(routes(i)); err != nil {
			s.fail("%v", err)
		}
	}
}

// kill has the first host end, and another one with its address come in its place.
func (s *cutting) kill() {
	for range 5 {
		s.sleep(60 * time.Millisecond)
		if s.users == 0 {
			return
		}
		m := s.procs[0]
		m.dead = true
		s.users++ // until the next one has its own
		s.count.kills++
		if s.rng.IntN(2) == 0 {
			m.h.Close()
			s.sleep(5 * time.Millisecond)
			s.cables[0].Unplug()
		} else {
			s.cables[0].Unplug()
			m.h.Close()
		}
		s.sleep(20 * time.Millisecond)
		s.open(0)
		s.users--
	}
}

// open has a host begin, with a process and what it does.
func (s *cutting) open(i int) {
	h := s.host(i, s.cfg)
	p, err := vmmc.Open(context.Background(), &vmmc.Config{Card: h, Process: uint32(i)})
	if err != nil {
		s.t.Fatal(err)
	}
	m := &member{Process: p, h: h}
	s.procs[i] = m
	for k := range s.hosts {
		if k == i {
			continue
		}
		m.active += 4
		s.Go(fmt.Sprintf("%d exports to %d", i, k), func() { s.export(m, i, k); m.active-- })
		s.Go(fmt.Sprintf("%d redirects to %d", i, k), func() { s.redirect(m, i, k); m.active-- })
		for _, id := range []int{i, i + cutMoved} {
			s.users++
			s.Go(fmt.Sprintf("%d imports %d of %d", i, id, k), func() { s.use(m, i, k, id); m.active--; s.users-- })
		}
	}
}

// board makes an export.
func (s *cutting) board(m *member, i, k int, id uint32) *cutBoardOf {
	b := &cutBoardOf{memory: [][]byte{s.memory(cutBoard)}}
	var err error
	b.export, err = m.Export(b.memory[0], id, vmmc.Everybody, func(vmmc.Notification) { s.handled[i][k]++ })
	if err != nil {
		if !m.dead {
			s.fail("host %d exports %d: %v", i, id, err)
		}
		return nil
	}
	s.boards[i][k] = append(s.boards[i][k], b)
	return b
}

// export has a board for an importer, takes it back now and then, and makes another one.
func (s *cutting) export(m *member, i, k int) {
	for !m.dead {
		b := s.board(m, i, k, uint32(k))
		if b == nil {
			return
		}
		for until := s.Now() + s.rng.Int64N(int64(40*time.Millisecond)); s.Now() < until || s.over; {
			if m.dead || s.over && s.leave(m, b, i) {
				return
			}
			m.Poll()
			_ = s.Sleep(100 * time.Microsecond)
		}
		s.count.unexports++
		patience := time.Duration(1 << s.rng.IntN(25))
		if s.rng.IntN(3) == 0 {
			patience = cutEnd
		}
		ctx, cancel := s.limit(m.h, patience)
		before := s.Now()
		if err := b.export.Unexport(ctx); err != nil && !m.dead {
			s.fail("host %d takes board %d back: %v", i, k, err)
		}
		cancel()
		if took := time.Duration(s.Now() - before); took > 10*time.Second {
			s.fail("host %d has taken board %d back after %v", i, k, took)
		}
		b.kept = bytes.Clone(b.memory[0])
	}
}

// leave reports whether an exporter at the end may go, because no importer is left.
func (s *cutting) leave(m *member, b *cutBoardOf, i int) bool {
	if s.users > 0 {
		return false
	}
	for end := s.Now() + int64(cutEnd); len(b.export.Importers()) > 0; m.Poll() {
		if s.Now() > end {
			s.fail("host %d: export %d has importers %v, they have all gone", i, b.export.ID(), b.export.Importers())
			return true
		}
		_ = s.Sleep(time.Millisecond)
	}
	return true
}

// redirect has a board for an importer, and redirects it.
func (s *cutting) redirect(m *member, i, k int) {
	b := s.board(m, i, k, uint32(k+cutMoved))
	if b == nil {
		return
	}
	for !m.dead {
		if s.over && s.leave(m, b, i) {
			return
		}
		m.Poll()
		s.sleep(time.Millisecond)
		if s.over {
			continue
		}
		to := s.memory(cutBoard)
		if s.rng.IntN(3) == 0 {
			to = nil
		} else {
			b.memory = append(b.memory, to)
		}
		s.count.redirects++
		ctx, cancel := s.limit(m.h, cutEnd)
		_, err := b.export.Redirect(ctx, to)
		cancel()
		if err != nil && !m.dead {
			s.fail("host %d redirects board %d: %v", i, k, err)
			return
		}
	}
}

// use imports a board again and again.
func (s *cutting) use(m *member, i, k, id int) {
	for range cutSessions {
		if m.dead {
			return
		}
		if err := s.session(m, i, k, id); err != nil && !m.dead {
			s.fail("host %d, board %d of %d: %v", i, id, k, err)
			return
		}
	}
}

// session is one import.
func (s *cutting) session(m *member, i, k, id int) error {
	ctx, cancel := s.limit(m.h, cutEnd)
	defer cancel()
	im, err := m.Import(ctx, vmmc.Name{Process: uint32(k), ID: uint32(id)})
	if errors.Is(err, vmmc.ErrUnexported) || errors.Is(err, vmmc.ErrPeer) && !errors.Is(err, provider.ErrRefused) {
		return nil // it was made, and is gone again
	}
	if err != nil {
		return fmt.Errorf("the import ends by %w", err)
	}
	s.count.imports++
	s.sessions++
	if err := s.send(m, im, k, i, s.sessions); err != nil {
		return err
	}
	before := s.Now()
	err = im.Unimport(ctx)
	if err != nil {
		return fmt.Errorf("it is given up after %v: %w", time.Duration(s.Now()-before), err)
	}
	return nil
}

// send sends by an import until something fails.
func (s *cutting) send(m *member, im *vmmc.Import, k, i int, stamp uint64) error {
	var short []int // messages so far
	for n := range 1 + s.rng.IntN(20) {
		data, at := binary.LittleEndian.AppendUint64(nil, stamp<<16|uint64(n)), 8*n
		long := s.rng.IntN(4) == 0 // behind it those before are there
		if long {
			data, at = s.repeat(data, 20+s.rng.IntN(1000)), 8*(cutSlots+s.rng.IntN(100))
		} else {
			short = append(short, n)
		}
		send := m.SendMsg
		if s.rng.IntN(3) == 0 {
			send = m.SendMsgWithNotify
		}
		if ok, err := s.sent(m, im, func(ctx context.Context) error { return send(ctx, data, im.Addr()+vmmc.ProxyAddr(at)) }); !ok {
			return err
		}
		if !long {
			continue
		}
		if !s.there(k, i, data, at) {
			return fmt.Errorf("message %d has ended, and its %d bytes are not there", n, len(data))
		}
		for _, x := range short {
			if !s.there(k, i, binary.LittleEndian.AppendUint64(nil, stamp<<16|uint64(x)), 8*x) {
				return fmt.Errorf("message %d is there, and %d before it is not", n, x)
			}
		}
		if s.rng.IntN(2) == 0 {
			s.sleep(200 * time.Microsecond)
		}
	}
	if s.rng.IntN(4) == 0 {
		return s.notify(m, im, k, i)
	}
	return nil
}

// sent sends, and reports whether that has gone well. If not, the import is of no use any more, or
// soon will be.
func (s *cutting) sent(m *member, im *vmmc.Import, send func(context.Context) error) (bool, error) {
	ctx, cancel := s.limit(m.h, cutEnd)
	defer cancel()
	err := send(ctx)
	if s.count.sends++; err == nil {
		return true, nil
	}
	s.count.failed++
	for end := s.Now() + int64(cutEnd); im.Done() == nil; _ = s.Sleep(time.Millisecond) {
		if s.Now() > end {
			return false, fmt.Errorf("a message ends by %w, and the import holds", err)
		}
	}
	if errors.Is(err, vmmc.ErrPeer) || errors.Is(err, vmmc.ErrUnexported) {
		return false, nil
	}
	return false, fmt.Errorf("a message ends by %w", err)
}

// notify sends more notifications than there is room for at once, and waits until as many have
// come.
func (s *cutting) notify(m *member, im *vmmc.Import, k, i int) error {
	want := s.handled[k][i] + cutNotes
	for range cutNotes {
		if ok, err := s.sent(m, im, func(ctx context.Context) error { return m.SendMsgWithNotify(ctx, nil, im.Addr()) }); !ok {
			return err
		}
	}
	for end := s.Now() + int64(cutEnd); s.handled[k][i] < want && im.Done() == nil; _ = s.Sleep(100 * time.Microsecond) {
		if s.Now() > end {
			return fmt.Errorf("%d of %d notifications do not come", want-s.handled[k][i], cutNotes)
		}
		m.Poll()
	}
	s.count.notes += cutNotes
	return nil
}

// there reports whether a board has what was sent.
func (s *cutting) there(k, i int, what []byte, at int) bool {
	for _, b := range slices.Backward(s.boards[k][i]) {
		for _, m := range slices.Backward(b.memory) {
			if bytes.Equal(m[at:][:len(what)], what) {
				return true
			}
		}
	}
	return false
}

// end waits until the importers have done, and closes what is left.
func (s *cutting) end() {
	for s.users > 0 {
		_ = s.Sleep(time.Millisecond)
		if s.Now() > int64(5*time.Minute) {
			s.fail("importers have no end")
			break
		}
	}
	s.over = true
	for i := range s.hosts {
		for s.procs[i].active > 0 {
			_ = s.Sleep(time.Millisecond)
		}
	}
	for i := range s.hosts {
		s.procs[i].Close()
	}
	_ = s.Sleep(50 * time.Millisecond)
	s.quiet = true
	_ = s.Sleep(10 * time.Second)
	for i := range s.hosts {
		if err := empty(s.network.hosts[i]); err != nil {
			s.fail("host %d: %w", i, err)
		}
	}
	s.untouched()
}

// untouched wants nothing to have been written to boards since they were taken back.
func (s *cutting) untouched() {
	for i := range s.boards {
		for k := range s.boards[i] {
			for _, b := range s.boards[i][k] {
				if wrong := differ(b.memory[0], b.kept); b.kept != nil && wrong > 0 {
					s.fail("%d bytes of board %d of host %d were written after Unexport", wrong, k, i)
				}
			}
		}
	}
}

// repeat returns n copies of a word in memory of their own.
func (s *cutting) repeat(word []byte, n int) []byte {
	b := s.memory(n * len(word))
	for at := 0; at < len(b); at += len(word) {
		copy(b[at:], word)
	}
	return b
}

// TestGoodbyeLost: a process ends, and the host of its importer loses its routes at some moment
// of that, for so long that it gives the line up, and with it what its process has said last. The
// pages that were exported are given back.
func TestGoodbyeLost(t *testing.T) {
	for after := time.Duration(0); after < 60*time.Microsecond; after += 500 * time.Nanosecond {
		n := newNetwork(t, myrinet.Options{Seed: 1})
		cfg := lanai.Config{PeerTimeout: 5 * time.Millisecond}
		cfg.Card.Timing = myrinet.PCITiming()
		n.host(0, cfg)
		h, made, over := n.host(1, cfg), false, false
		n.process(0, 0, func(p *vmmc.Process) error {
			_, err := p.Export(make([]byte, 5000), 0, vmmc.Everybody, nil)
			for err == nil && !made {
				p.Poll()
				err = n.Sleep(10 * time.Microsecond)
			}
			return err
		})
		n.process(1, 1, func(p *vmmc.Process) error {
			_, err := p.Import(context.Background(), vmmc.Name{})
			if err != nil {
				return err
			}
			for made = true; n.hosts[0].Snapshot().Processes != nil; {
				_ = n.Sleep(100 * time.Nanosecond)
			}
			_ = n.Sleep(after)
			err = h.SetRoutes(nil)
			_ = n.Sleep(4 * cfg.PeerTimeout)
			over = true
			return errors.Join(err, h.SetRoutes(routes(1)), n.Sleep(time.Second))
		})
		if err := n.World.Run(); err != nil || !over {
			t.Fatal(err)
		}
		if err := empty(n.hosts[0]); err != nil {
			t.Errorf("routes are lost after %v: %v", after, err)
		}
	}
}
