package splitc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var seeding = seedtest.Flags("splitc", 20)

var seeds = seeding.Each

var bg = context.Background()

// program is a simulated segment with one station, NIC and process for each rank.
type program struct {
	*sim.World
	cfg      splitc.Config
	stations []*sim.Station
	errs     []error
	left     int // ranks that have not finished
}

func newProgram(size int, opts sim.Options, cfg splitc.Config) *program {
	if opts.Limit == 0 {
		opts.Limit = 10 * time.Minute
	}
	cfg.Job, cfg.Size = "test", size
	if cfg.HeapSize == 0 {
		cfg.HeapSize = 1 << 20
	}
	if cfg.PeerTimeout == 0 {
		cfg.PeerTimeout = 20 * time.Second
	}
	return &program{World: sim.New(opts), cfg: cfg}
}

// host adds a process that runs fn with a NIC of its own.
func (p *program) host(name string, fn func(nic *vipl.NIC) error) {
	station := p.Station(name)
	p.stations = append(p.stations, station)
	seed := uint64(len(p.stations))
	p.left++
	p.Go(name, func() {
		defer func() { p.left-- }()
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: seed})
		if err == nil {
			err = fn(nic)
			nic.Close()
		}
		if err != nil && !errors.Is(err, errKilled) {
			p.errs = append(p.errs, fmt.Errorf("%s at %v: %w", name, time.Duration(p.Now()-sim.Start), err))
		}
	})
}

// errKilled is what the process of a station returns that was killed.
var errKilled = errors.New("killed")

// start adds the ranks: each starts, runs fn, and exits if fn returns nil.
func (p *program) start(fn func(w *splitc.World) error) {
	for rank := range p.cfg.Size {
		p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error { return p.rank(nic, rank, fn) })
	}
}

func (p *program) rank(nic *vipl.NIC, rank int, fn func(w *splitc.World) error) error {
	cfg := p.cfg
	cfg.NIC, cfg.Rank = nic, rank
	w, err := splitc.Start(bg, &cfg)
	if err != nil {
		return err
	}
	if err := fn(w); err != nil {
		w.Fail(err)
		return err
	}
	return errors.Join(w.Exit(bg), w.Close())
}

func (p *program) run() error {
	err := p.Run()
	return errors.Join(append(p.errs, err)...)
}

// runProgram runs fn in every process of a program and returns what went wrong anywhere.
func runProgram(size int, opts sim.Options, cfg splitc.Config, fn func(w *splitc.World) error) error {
	p := newProgram(size, opts, cfg)
	p.start(fn)
	return p.run()
}

// eachLayer runs a test for every layer.
func eachLayer(t *testing.T, f func(t *testing.T, layer string)) {
	for _, layer := range splitc.Layers() {
		t.Run(layer, func(t *testing.T) {
			need.Simulated(t)
			f(t, layer)
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAgain: a seed gives a program the same run each time, down to the last frame of its end.
func TestAgain(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		var first sim.Stats
		for k := range 4 {
			p := newProgram(5, sim.Options{Seed: 1, Loss: 0.1, Dup: 0.1, Reorder: 0.1}, splitc.Config{Layer: layer})
			p.start(reduceHeap)
			if err := p.run(); err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				first = p.Stats()
			}
			if p.Stats() != first {
				t.Fatalf("first %+v\nthen %+v", first, p.Stats())
			}
		}
	})
}
