package vipl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var seeds = seedtest.Flags("vipl", 20).Each

// levels are the three reliability levels, by name.
var levels = []reliability.Level{reliability.Unreliable, reliability.ReliableDelivery, reliability.ReliableReception}

var reliableLevels = levels[1:]

// world is a simulated segment with NICs on it. Errors of its processes end up
// in errs; the first one fails the test.
type world struct {
	*sim.World
	seed  uint64
	long  bool // some NICs have long frames
	key   seal.Source
	seals *seal.Options // for links that are sealed before Open sees them
	errs  []error
	nics  []*vipl.NIC
	ends  []vipl.VISnapshot // of pingPong
}

func newWorld(opts sim.Options) *world {
	return &world{World: sim.New(opts), seed: opts.Seed, long: opts.MTU == 0}
}

// node runs fn as a process with a NIC of its own.
func (w *world) node(name string, cfg *vipl.Config, fn func(n *vipl.NIC) error) *sim.Station {
	station := w.StationWith(sim.StationOptions{Name: name, Ports: transport.PortRange{Lo: 1024, Hi: 2047}, Long: w.path(name)})
	w.changePath(station)
	w.nodeOn(station, name, cfg, fn)
	return station
}

// path returns what becomes of the long frames of a node at first: in some worlds that of all of
// them is whole, cut or blocked.
func (w *world) path(name string) sim.LongPath {
	if !w.long || w.seed%3 == 0 || (w.seed/2+uint64(name[0]))%4 != 1 {
		return sim.LongNone
	}
	return sim.LongWhole + sim.LongPath(w.seed/8%3)
}

// changePath changes the path of a station that has long frames, now and then.
func (w *world) changePath(s *sim.Station) {
	path := w.path(s.String())
	for i := range uint64(6) {
		if path != sim.LongNone {
			w.At(int64(time.Millisecond)*int64((i+1)*(5+w.seed%40)), func() { s.SetLong(sim.LongWhole + (path+sim.LongPath(i)-sim.LongWhole)%3) })
		}
	}
}

func (w *world) nodeOn(station transport.Link, name string, cfg *vipl.Config, fn func(n *vipl.NIC) error) {
	c := vipl.Config{}
	if cfg != nil {
		c = *cfg
	}
	if c.Seed == 0 {
		c.Seed = w.seed*1000 + uint64(len(name)) + uint64(name[0])
	}
	if c.Key == nil {
		c.Key = w.key
	}
	c.Link = station
	long := w.long && c.Key == nil && w.seals == nil && w.seed%3 != 0 && (w.seed/2+uint64(name[0]))%4 == 0
	if long {
		c.Link = newLongLink(station)
	}
	w.Go(name, func() {
		n, err := w.open(&c)
		if err == nil {
			w.nics = append(w.nics, n)
			if long {
				n.LongFrames(longMTU)
			}
			err = fn(n)
			n.Close()
		}
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("%s at %v: %w", name, time.Duration(w.Now()), err))
		}
	})
}

// open opens a NIC, on a link that is sealed before if that is wanted.
func (w *world) open(c *vipl.Config) (*vipl.NIC, error) {
	if w.seals != nil {
		var seed [32]byte
		binary.BigEndian.PutUint64(seed[:], c.Seed)
		opts := *w.seals
		opts.Random = rand.NewChaCha8(seed)
		sealed, err := seal.New(c.Link, opts)
		if err != nil {
			return nil, err
		}
		c.Link = sealed
	}
	return vipl.Open(context.Background(), c)
}

func (w *world) run() error {
	if err := w.Run(); err != nil {
		return errors.Join(append(w.errs, err)...)
	}
	return errors.Join(w.errs...)
}

const service = 1024 + 77

var bg = context.Background()

// pair runs a server and a client that are connected by one VI of the given
// attributes, on a segment of the given options. before, if not nil, runs at
// the client before it connects.
func pair(opts sim.Options, attr *vipl.Attributes, server, before, client func(v *vipl.VI) error) error {
	return newWorld(opts).pair(attr, server, before, client)
}

func (w *world) pair(attr *vipl.Attributes, server, before, client func(v *vipl.VI) error) error {
	station := w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		v, err := n.CreateVI(attr, nil, nil)
		if err != nil {
			return err
		}
		if err := r.Accept(bg, v); err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		return server(v)
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		v, err := n.CreateVI(attr, nil, nil)
		if err != nil {
			return err
		}
		if before != nil {
			if err := before(v); err != nil {
				return err
			}
		}
		if err := dial(v, ethertype.Addr{MAC: station.MAC(), Port: service}); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		return client(v)
	})
	return w.run()
}

// dial connects, trying again while the server does not listen yet.
func dial(v *vipl.VI, to ethertype.Addr) error {
	for range 100 {
		if err := v.Connect(bg, to, nil); !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
	}
	return vipl.ErrNoMatch
}

// buffers is registered memory cut into descriptors.
type buffers struct {
	mem   []byte
	h     vipl.MemHandle
	descs []vipl.Descriptor
	size  int
}

func newBuffers(n *vipl.NIC, count, size int) (*buffers, error) {
	b := &buffers{mem: make([]byte, max(count*size, 1)), descs: make([]vipl.Descriptor, count), size: size}
	var err error
	b.h, err = n.RegisterMem(b.mem, &vipl.MemAttributes{EnableRDMAWrite: true})
	for i := range b.descs {
		b.descs[i].Segs = []vipl.Segment{{Data: b.data(i), Handle: b.h}}
		b.descs[i].Context = i
	}
	return b, err
}

func (b *buffers) data(i int) []byte { return b.mem[i*b.size : (i+1)*b.size] }

// words are the contents of a message, eight bytes at a time.
type words struct{ word, step uint64 }

func wordsOf(seed uint64, i int) words {
	rng := rand.NewPCG(seed, uint64(i))
	return words{rng.Uint64(), rng.Uint64() | 1}
}

func (w *words) next() uint64 { w.word += w.step; return w.word }

// content fills b with bytes that tell message i of a seed from every other.
func content(seed uint64, i int, b []byte) {
	w := wordsOf(seed, i)
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, w.next())
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], w.next())
	copy(b, last[:])
}

// check compares a message with what was sent.
func check(seed uint64, i int, got []byte) error {
	w := wordsOf(seed, i)
	rest := got
	for ; len(rest) >= 8; rest = rest[8:] {
		if binary.LittleEndian.Uint64(rest) != w.next() {
			break
		}
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], w.next())
	if len(rest) >= 8 || !bytes.HasPrefix(last[:], rest) {
		return fmt.Errorf("message %d (%d bytes) differs from what was sent at byte %d or behind", i, len(got), len(got)-len(rest))
	}
	return nil
}
