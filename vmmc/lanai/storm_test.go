package lanai_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

var seeds = seedtest.Flags("vmmc/lanai", 15).Each

const (
	stormHosts = 3
	stormSize  = 10000
)

// TestStorm: while cables and the switch fail and return, bits flip, a host ends without a
// word and comes back with its address, and another one sends packets of its own making by
// routes of its own making, each send ends. One that ends well is in the exporter's
// memory, whole. In the end nothing is left of the processes: no page that others may write, no
// packet, no memory on the card.
func TestStorm(t *testing.T) {
	strange, stale := uint64(0), uint64(0)
	seeds(t, 30, func(seed uint64) error {
		cfg, length := lanai.Config{}, 100*time.Millisecond
		if seed%5 == 2 {
			cfg, length = mapped(), 2*time.Second // it takes a while until mappers agree, above all in such company
		}
		s := newStorm(t, seed, 2e-7, length, cfg)
		s.goWild(seed)
		if err := s.run(); err != nil {
			return err
		}
		for _, h := range s.hosts {
			c := h.Snapshot().Stats
			strange, stale = strange+c.Strange, stale+c.Stale
		}
		for i, h := range s.hosts {
			if err := empty(h); err != nil {
				return fmt.Errorf("host %d: %w", i, err)
			}
		}
		return nil
	})
	if strange == 0 || stale == 0 {
		t.Errorf("%d strange packets were counted and %d stale ones, want some of both", strange, stale)
	}
}

// goWild adds a wild host, for a second at most. It ends with the storm, because who answers it
// needs a while until it is given up.
func (s *storm) goWild(seed uint64) {
	wild, length := wildHost(stormHosts), min(time.Duration(s.end), time.Second)
	if err := wild.Plug(s.fabric, s.sw, seed); err != nil {
		s.t.Fatal(err)
	}
	s.Go("wild", func() {
		if err := wild.Run(s.World, length, 30*time.Microsecond); err != nil {
			s.errs = append(s.errs, err)
		}
	})
}

// TestDrops: where nothing is sent again, what arrives with a CRC error is counted, and
// sends end all the same.
func TestDrops(t *testing.T) {
	s := newStorm(t, 1, 5e-6, 20*time.Millisecond, lanai.Config{Drop: true})
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	errors := uint64(0)
	for i, h := range s.hosts {
		errors += h.Snapshot().Card.Stats.CRCErrors
		if err := empty(h); err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	}
	if errors == 0 {
		t.Error("no CRC error was counted")
	}
}

// empty returns what is left of processes that have gone.
func empty(h *lanai.Card) error {
	s := h.Snapshot()
	if s.Frames != 0 || s.Buffers != 0 || len(s.Processes) != 0 || s.Card.Pages != 1 {
		return fmt.Errorf("%d pages may be written, %d packets, %d processes, %d doorbell pages are left", s.Frames, s.Buffers, len(s.Processes), s.Card.Pages)
	}
	for _, m := range s.Card.Memory {
		if m.Purpose == "TLB" || m.Purpose == "outgoing page table" {
			return fmt.Errorf("%d bytes for %s are left", m.Size, m.Purpose)
		}
	}
	return nil
}

// storm is hosts with a process each, which all write to each other.
type storm struct {
	*network
	cfg   lanai.Config
	end   int64 // how long it lasts, and when it is over
	left  int
	done  int // sends that ended well
	errs  []error
	board [stormHosts][stormHosts][]byte // by exporter and importer
	arena
}

// arena is memory that processes write from and to.
type arena struct {
	rng  *rand.Rand
	left []byte
}

// memory returns memory at an address whose low bits the seed decides, as they decide on pages and
// on places in the TLB, so that a seed can be replayed. A write whose source is not aligned as its
// destination is goes from a copy, which lies where the heap puts it: so GOMAXPROCS=1 gives a seed the
// same run each time, and more processors give it another each time.
func (a *arena) memory(size int) []byte {
	const aligned, room = 4 << 20, 8 << 20
	at := a.rng.IntN(64) * 64
	if len(a.left) < at+size {
		a.left = make([]byte, room+aligned)
		a.left = a.left[-vipl.VirtualAddress(a.left)%aligned:][:room]
	}
	mem := a.left[at:][:size:size]
	a.left = a.left[at+size:]
	return mem
}

func newStorm(t testing.TB, seed uint64, bitErrors float64, length time.Duration, cfg lanai.Config) *storm {
	cfg.Card.Timing = myrinet.PCITiming()
	cfg.PeerTimeout = 20 * time.Millisecond
	s := &storm{network: newNetwork(t, myrinet.Options{Seed: seed, BitErrors: bitErrors, Timeout: time.Millisecond}), cfg: cfg, end: int64(length), arena: arena{rng: rand.New(rand.NewPCG(seed, 1))}}
	for i := range stormHosts {
		s.host(i, cfg)
	}
	return s
}

// run has the processes write, and things fail, until it is over.
func (s *storm) run() error {
	s.end += s.Now()
	s.left = stormHosts
	for i := range stormHosts {
		s.Go(fmt.Sprint("process ", i), func() {
			if err := s.process(i); err != nil {
				s.errs = append(s.errs, fmt.Errorf("process %d: %w", i, err))
			}
		})
	}
	s.Go("faults", s.faults)
	err := s.World.Run()
	if s.done == 0 {
		s.errs = append(s.errs, errors.New("no send has ended well"))
	}
	return errors.Join(append(s.errs, err)...)
}

// faults has things fail and return.
func (s *storm) faults() {
	for s.Now() < s.end {
		c := s.cables[s.rng.IntN(stormHosts)]
		short := time.Duration(s.rng.IntN(int(8 * time.Millisecond)))
		if s.rng.IntN(4) == 0 {
			short *= 5 // longer than a node is believed to be alive
		}
		if s.rng.IntN(5) == 0 {
			s.sw.Fail()
			_ = s.Sleep(short)
			s.sw.Restore()
		} else {
			c.Cut()
			_ = s.Sleep(short)
			c.Mend()
		}
		_ = s.Sleep(time.Duration(s.rng.IntN(int(10 * time.Millisecond))))
	}
}

// open returns a process that exports a board for each other process.
func (s *storm) open(i int) (*vmmc.Process, error) {
	p, err := vmmc.Open(context.Background(), &vmmc.Config{Card: s.hosts[i], Process: uint32(i)})
	if err != nil {
		return nil, err
	}
	for k := range stormHosts {
		s.board[i][k] = s.memory(stormSize)
		if _, err := p.Export(s.board[i][k], uint32(k), vmmc.Everybody, func(vmmc.Notification) {}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// process writes to the boards of all. Now and then the host of the first one ends, with all
// that it has, and another one comes in its place.
func (s *storm) process(i int) error {
	p, err := s.open(i)
	if err != nil {
		return err
	}
	for round := byte(1); s.Now() < s.end && err == nil; round++ {
		if i == 0 && s.rng.IntN(8) == 0 {
			s.cables[i].Unplug()
			s.host(i, s.cfg)
			if p, err = s.open(i); err != nil {
				return err
			}
		}
		err = s.write(p, i, (i+1+int(round)%(stormHosts-1))%stormHosts, round)
	}
	for s.left--; err == nil && s.left > 0; {
		p.Poll()
		err = s.Sleep(time.Millisecond)
	}
	p.Close()
	if err == nil {
		err = s.Sleep(time.Second) // what they say at the end arrives, or is given up
	}
	return err
}

// write imports another process's board and sends to it until something fails.
func (s *storm) write(p *vmmc.Process, i, to int, round byte) error {
	ctx, cancel := s.limit(50 * time.Millisecond)
	defer cancel()
	before := s.board[to][i]
	board, err := p.Import(ctx, vmmc.Name{Process: uint32(to), ID: uint32(i)})
	if err != nil {
		return nil // it is cut off: others are tried
	}
	now := s.board[to][i] // that, or the one before, if the host has just come back
	for k := range 5 {
		src := s.memory(1 + s.rng.IntN(stormSize-1))
		for at := range src {
			src[at] = round + byte(k)
		}
		long, cancel := s.limit(10 * time.Second)
		err = p.SendMsgWithNotify(long, src, board.Addr())
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a send of %d bytes to process %d has no end", len(src), to)
		}
		if err != nil {
			return nil
		}
		s.done++
		if !s.cfg.Drop && len(src) > vmmc.DefaultShort && min(differ(before, src), differ(now, src)) > mostUnseen {
			return fmt.Errorf("a send of %d bytes to process %d has ended, and they are not there", len(src), to)
		}
	}
	return board.Unimport(context.Background())
}

// mostUnseen is how many bytes may be wrong: a CRC-8 does not see each pair of bits that
// flip.
const mostUnseen = 8

// differ returns how many bytes of memory are not those of src.
func differ(memory, src []byte) (n int) {
	for i := range src {
		if i >= len(memory) || memory[i] != src[i] {
			n++
		}
	}
	return n
}

// limit returns a context that ends after a time of the world.
func (s *storm) limit(d time.Duration) (context.Context, context.CancelFunc) {
	return s.hosts[0].WithTimeout(context.Background(), d)
}
