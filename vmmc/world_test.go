package vmmc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

var seeds = seedtest.Flags("vmmc", 50).Each

var bg = context.Background()

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// world is a simulated segment with a station, NIC and process of VMMC for each name.
type world struct {
	*sim.World
	stations map[uint32]*sim.Station
	errs     []error
	left     int // processes that are to be served until they have finished
}

func newWorld(opts sim.Options) *world {
	if opts.Limit == 0 {
		opts.Limit = 5 * time.Minute
	}
	return &world{World: sim.New(opts), stations: map[uint32]*sim.Station{}}
}

// errDead is returned by processes that have been killed.
var errDead = errors.New("killed")

// process runs fn with a process of a number. When fn is over, the process goes on
// serving until all have finished.
func (w *world) process(number uint32, cfg vmmc.Config, fn func(p *vmmc.Process) error) {
	w.stations[number] = w.Station(fmt.Sprint("process ", number))
	w.processAt(w.stations[number], number, func() bool { return true }, cfg, fn)
}

// processAt is process at a station, opened when it may be.
func (w *world) processAt(station *sim.Station, number uint32, may func() bool, cfg vmmc.Config, fn func(p *vmmc.Process) error) {
	w.left++
	w.Go(station.String(), func() {
		open := true
		done := func() {
			if open {
				open = false
				w.left--
			}
		}
		defer done()
		for !may() {
			if err := w.Sleep(time.Millisecond); err != nil {
				w.errs = append(w.errs, err)
				return
			}
		}
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(number) + 77})
		if err != nil {
			w.errs = append(w.errs, err)
			return
		}
		defer nic.Close()
		cfg.NIC, cfg.Process, cfg.Logger = nic, number, quiet
		if cfg.PeerTimeout == 0 {
			cfg.PeerTimeout = 20 * time.Second
		}
		p, err := vmmc.Open(context.Background(), &cfg)
		if err == nil {
			if err = fn(p); err == nil {
				done()
				err = w.serve(p, func() bool { return w.left == 0 })
			}
			p.Close()
			p.Close()
		}
		if err != nil && !errors.Is(err, errDead) {
			w.errs = append(w.errs, fmt.Errorf("process %d at %v: %w", number, time.Duration(w.Now()-sim.Start), err))
		}
	})
}

// serve has p do what others ask of it until done.
func (w *world) serve(p *vmmc.Process, done func() bool) error {
	for !done() {
		p.Poll()
		if err := w.Sleep(20 * time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) run() error {
	err := w.Run()
	return errors.Join(append(w.errs, err)...)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pattern fills b with bytes that tell message i from others.
func pattern(b []byte, i int) []byte {
	for k := range b {
		b[k] = byte(k*7 + i*31 + k>>8 + 1)
	}
	return b
}
