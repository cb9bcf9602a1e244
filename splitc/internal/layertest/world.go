// Package layertest is the suite that every communication layer of Split-C passes. It runs in the
// simulator, over links with the faults that a test selects.
package layertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// heapSize is the length of a heap in the tests.
const heapSize = 512 << 10

var bg = context.Background()

// rank is a process of a test, with its layer.
type rank struct {
	layer.Layer
	w        *world
	me       int
	procs    int
	nic      *vipl.NIC
	member   *job.Member
	watch    *layer.Watch
	count    *layer.Counters
	calls    [][2]uint32      // procedure and length of each call that has run here
	controls [][]uint32       // contents of control messages, by sender
	heard    func(msg []byte) // receives control messages, unless it is nil
	closed   bool             // the layer is closed
}

// Call returns the arguments, with the procedure's number added to each byte.
func (r *rank) Call(from int, fn uint32, args, result []byte) int {
	r.calls = append(r.calls, [2]uint32{fn, uint32(len(args))})
	for i, b := range args {
		result[i] = b + byte(fn)
	}
	return len(args)
}

// Control stores a control message.
func (r *rank) Control(from int, msg []byte) {
	word := ^uint32(0)
	if len(msg) >= 4 && len(msg) == controlSize(int(binary.LittleEndian.Uint32(msg))) {
		word = binary.LittleEndian.Uint32(msg)
	}
	r.controls[from] = append(r.controls[from], word)
	if r.heard != nil {
		r.heard(msg)
	}
}

// controlSize returns the length of control message i in the tests.
func controlSize(i int) int { return 4 + i*397%(layer.MaxControl-3) }

// until waits until done returns true, for at most two minutes.
func (r *rank) until(what string, done func() bool) error {
	ctx, cancel := r.nic.WithTimeout(bg, 2*time.Minute)
	defer cancel()
	r.watch.Begin()
	for !done() {
		err := r.Wait(r.watch.Slice())
		if err == nil {
			err = r.watch.Check(ctx)
		}
		if err != nil {
			return fmt.Errorf("rank %d, waiting for %s: %w", r.me, what, err)
		}
	}
	return nil
}

// synced waits until no operation of this rank is outstanding.
func (r *rank) synced() error {
	return r.until("a sync", func() bool { return r.count.Outstanding == 0 && r.count.Sources == 0 })
}

// world is a simulated segment with a station for each rank.
type world struct {
	*sim.World
	stations []*sim.Station
	cards    []*lanai.Card // of the ranks, if they have some
	errs     []error
	ready    int    // ranks that have begun, if the test counts them
	done     int    // ranks that have finished
	waits    uint64 // waits for credits, if the test counts them
}

// errKilled is the error of a rank that has ended as its test requires.
var errKilled = errors.New("killed")

// run runs fn on procs ranks. A rank that has finished serves the others until all have finished.
func run(procs int, opts sim.Options, open layer.Open, fn func(r *rank) error) error {
	if opts.Limit == 0 {
		opts.Limit = 10 * time.Minute
	}
	return (&world{World: sim.New(opts)}).run(procs, open, fn)
}

// run is the function run in an existing world.
func (w *world) run(procs int, open layer.Open, fn func(r *rank) error) error {
	for me := range procs {
		station := w.Station(fmt.Sprint("rank ", me))
		w.stations = append(w.stations, station)
		w.Go(station.String(), func() {
			if err := w.rank(me, procs, station, open, fn); err != nil && !errors.Is(err, errKilled) {
				w.errs = append(w.errs, fmt.Errorf("rank %d at %v: %w", me, time.Duration(w.Now()-sim.Start), err))
			}
		})
	}
	err := w.Run()
	return errors.Join(append(w.errs, err)...)
}

// rank runs the process of a rank.
func (w *world) rank(me, procs int, station *sim.Station, open layer.Open, fn func(r *rank) error) (err error) {
	counted := false
	finish := func() {
		if !counted {
			counted = true
			w.done++
		}
	}
	defer finish()
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(me) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	r := &rank{w: w, me: me, procs: procs, nic: nic, controls: make([][]uint32, procs)}
	r.member, err = job.Open(bg, &job.Config{Job: "layertest", Rank: me, Size: procs, NIC: nic, PeerTimeout: peerTimeout}, job.Program{Name: "layertest", Version: 1})
	if err != nil {
		return err
	}
	r.watch = layer.NewWatch(nic, r.member, 5*time.Minute)
	defer r.watch.End()
	ctx, cancel := nic.WithTimeout(bg, time.Minute)
	defer cancel()
	var card *lanai.Card
	if w.cards != nil {
		card = w.cards[me]
	}
	r.Layer, err = open(ctx, layer.Config{Card: card, Member: r.member, NIC: nic, Rank: me, Procs: procs, HeapSize: heapSize, Handler: r, Watch: r.watch,
		Timeout: time.Minute, PeerTimeout: peerTimeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.member.Fail(err)
		return err
	}
	defer func() {
		if !r.closed {
			r.Close()
		}
	}()
	r.count = r.Counters()
	if err := fn(r); err != nil {
		if !errors.Is(err, errKilled) {
			r.member.Fail(err)
		}
		return err
	}
	finish()
	if err := r.until("the others", func() bool { return w.done >= procs }); err != nil {
		r.member.Fail(err)
		return err
	}
	return r.member.Leave(bg)
}

// peerTimeout is how long a silent rank counts as alive.
const peerTimeout = 15 * time.Second

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pattern fills b with bytes that distinguish message i from others.
func pattern(b []byte, i int) []byte {
	for k := range b {
		b[k] = byte(k*7 + i*31 + k>>8 + 1)
	}
	return b
}
