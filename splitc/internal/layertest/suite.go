package layertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Each runs a test under one seed after another, as internal/seedtest does.
type Each func(t *testing.T, def int, run func(seed uint64) error)

// Run runs the suite.
func Run(t *testing.T, open layer.Open, seeds Each) {
	for _, c := range []struct {
		name  string
		procs int
		fn    func(r *rank) error
	}{
		{"Transfers", 3, transfers}, {"Calls", 3, calls}, {"Controls", 4, controls}, {"AllToOne", 6, allToOne}, {"LongToOne", 6, longToOne}, {"Heap", 2, heap},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, run(c.procs, sim.Options{}, open, c.fn))
			seeds(t, 10, func(seed uint64) error {
				return run(c.procs, sim.Options{Seed: seed, Loss: 0.1, Dup: 0.05, Reorder: 0.1}, open, c.fn)
			})
		})
	}
	t.Run("Leaving", func(t *testing.T) {
		check(t, leaving(open, sim.Options{}, false))
		seeds(t, 5, func(seed uint64) error {
			return leaving(open, sim.Options{Seed: seed, Loss: 0.1, Dup: 0.05, Reorder: 0.1}, true)
		})
	})
	t.Run("Death", func(t *testing.T) { death(t, open) })
}

// Storm runs the transfers, calls, messages and stores of the suite on a path that loses 30 %,
// duplicates 10 % and reorders 20 % of the frames, by up to 64. It is for layers that repair losses
// themselves.
func Storm(t *testing.T, open layer.Open, seeds Each) {
	for i, fn := range []func(r *rank) error{transfers, calls, controls, allToOne} {
		t.Run([]string{"Transfers", "Calls", "Controls", "AllToOne"}[i], func(t *testing.T) {
			seeds(t, 2, func(seed uint64) error {
				return run(3, sim.Options{Seed: seed, Loss: 0.3, Dup: 0.1, Reorder: 0.2, ReorderBy: 64}, open, fn)
			})
		})
	}
}

// sizes are the sizes of operations: of the basic types, around the lengths of short and medium
// messages, and long ones. layertest does not know the lengths of a layer, but these cover all
// layers.
var sizes = []int{1, 2, 4, 8, 12, 16, 24, 33, 48, 49, 60, 64, 65, 100, 128, 256, 1000, 1024, 2048, 4095, 4096, 4097, 8192, 10_000, longest}

// longest is the maximum number of bytes that a test transfers at a time.
const longest = 40_000

// transfers makes each rank put, store and get parts of all lengths at each other rank, many at the
// same time, from its heap and from other memory. It checks that all data reach their destination.
func transfers(r *rank) error {
	own := r.Heap()[8192+r.procs*2*longest:]
	for i, n := range sizes {
		for step := 1; step < r.procs; step++ {
			to, data := (r.me+step)%r.procs, own[:n]
			if (i+step)%3 == 0 {
				data = make([]byte, n)
			}
			if err := r.transfer(to, uint64(8192+r.me*2*longest), pattern(data, i+r.me)); err != nil {
				return err
			}
		}
	}
	return r.synced()
}

// transfer puts data and gets them back. Then it stores them at another place, and gets them back
// when they have arrived. It returns an error if they differ. After each synchronization it changes
// the data.
func (r *rank) transfer(to int, base uint64, source []byte) error {
	data, got := bytes.Clone(source), make([]byte, len(source))
	var err error
	if m := r.Direct(to); m != nil {
		copy(m[base:], data)
	} else {
		err = r.Put(bg, to, base, source)
	}
	if err == nil {
		err = r.synced()
	}
	clear(source)
	if err == nil {
		err = r.get(to, got, base)
	}
	if err != nil || !bytes.Equal(got, data) {
		return fmt.Errorf("rank %d got other bytes than it has put at rank %d, of %d: %w", r.me, to, len(data), err)
	}
	copy(source, data)
	if err := r.Store(bg, to, base+longest, source); err != nil {
		return err
	}
	if err := r.synced(); err != nil {
		return err
	}
	clear(source)
	last := data[len(data)-1]
	return r.until("a store to be there", func() bool {
		err = r.get(to, got, base+longest)
		return err != nil || got[len(got)-1] == last && bytes.Equal(got, data)
	})
}

// get reads directly or through the layer.
func (r *rank) get(from int, dst []byte, off uint64) error {
	if m := r.Direct(from); m != nil {
		copy(dst, m[off:])
		return nil
	}
	if err := r.Get(bg, from, dst, off); err != nil {
		return err
	}
	return r.synced()
}

// calls checks that procedures run once for each call, at the owner, and that the results arrive.
func calls(r *rank) error {
	const rounds = 20
	var result [layer.MaxCall]byte
	for i := range rounds {
		for step := 1; step < r.procs; step++ {
			to := (r.me + step) % r.procs
			args := pattern(make([]byte, i*layer.MaxCall/(rounds-1)), i)
			clear(result[:])
			if err := r.Layer.Call(bg, to, uint32(i), args, result[:]); err != nil {
				return err
			}
			if err := r.synced(); err != nil {
				return err
			}
			for k := range args {
				if result[k] != args[k]+byte(i) {
					return fmt.Errorf("rank %d got a wrong result of procedure %d at rank %d", r.me, i, to)
				}
			}
		}
	}
	want := rounds * (r.procs - 1)
	if err := r.until("the calls of others", func() bool { return len(r.calls) >= want }); err != nil {
		return err
	}
	if len(r.calls) != want {
		return fmt.Errorf("rank %d has run %d calls, want %d", r.me, len(r.calls), want)
	}
	return nil
}

// controls checks that control messages of all lengths arrive once, in order. Each rank answers
// each message, so that no more than MaxControls are in flight.
func controls(r *rank) error {
	const rounds = 30
	var msg [layer.MaxControl]byte
	for i := range rounds {
		for step := 1; step < r.procs; step++ {
			binary.LittleEndian.PutUint32(msg[:], uint32(i))
			if err := r.Layer.Control(bg, (r.me+step)%r.procs, msg[:controlSize(i)]); err != nil {
				return err
			}
		}
		if err := r.until("control messages", func() bool {
			for from, c := range r.controls {
				if from != r.me && len(c) <= i {
					return false
				}
			}
			return true
		}); err != nil {
			return err
		}
	}
	for from, c := range r.controls {
		for i, word := range c {
			if word != uint32(i) {
				return fmt.Errorf("rank %d has got %d as control message %d of rank %d", r.me, word, i, from)
			}
		}
	}
	return nil
}

// allToOne makes all ranks store to rank 0 as fast as they can, while rank 0 stores to all. It
// checks that every byte is counted.
func allToOne(r *rank) error {
	return r.toOne(400, 16)
}

// longToOne is allToOne with stores that do not share a message. There are many more of them than
// credits, so ranks must wait for credits.
func longToOne(r *rank) error {
	err := r.toOne(300, 1000)
	if err == nil {
		err = r.synced()
	}
	r.w.waits += r.Stats().CreditWaits
	if r.w.ready++; err == nil {
		err = r.until("the others", func() bool { return r.w.ready == r.procs })
	}
	if err == nil && r.w.waits == 0 {
		err = errors.New("no request waited for a credit")
	}
	return err
}

// toOne is allToOne with the given number and size of stores.
func (r *rank) toOne(rounds, size int) error {
	data := pattern(make([]byte, size), r.me)
	for range rounds {
		for to := range r.procs {
			if to != r.me && (to == 0 || r.me == 0) {
				if err := r.Store(bg, to, uint64(4096+size*r.me), data); err != nil {
					return err
				}
			}
		}
	}
	want := uint64(rounds * size)
	if r.me == 0 {
		want *= uint64(r.procs - 1)
	}
	if err := r.until("all stores", func() bool { return r.count.Stored >= want }); err != nil {
		return err
	}
	if r.count.Stored != want {
		return fmt.Errorf("%d bytes were stored at rank %d, want %d", r.count.Stored, r.me, want)
	}
	for from := range r.procs {
		if from == r.me || from != 0 && r.me != 0 {
			continue
		}
		if got := r.Heap()[4096+size*from:][:size]; !bytes.Equal(got, pattern(make([]byte, size), from)) {
			return fmt.Errorf("what rank %d has stored at rank %d is not there", from, r.me)
		}
	}
	return nil
}

// heap checks that the heap is complete, zero, and writable at both ends.
func heap(r *rank) error {
	h := r.Heap()
	if len(h) != heapSize || len(bytes.Trim(h[1:heapSize-1], "\x00")) != 0 {
		return fmt.Errorf("the heap has %d bytes, want %d of zero", len(h), heapSize)
	}
	one := []byte{byte(r.me + 1)}
	other := 1 - r.me
	for _, off := range []uint64{0, heapSize - 1} {
		if m := r.Direct(other); m != nil {
			m[off] = one[0]
		} else if err := r.Put(bg, other, off, one); err != nil {
			return err
		}
	}
	if err := r.synced(); err != nil {
		return err
	}
	return r.until("the other's bytes", func() bool { return h[0] == byte(other+1) && h[heapSize-1] == byte(other+1) })
}

// death kills a rank. The waits of the others must end with an error that names it, in bounded
// time, whatever they wait for.
func death(t *testing.T, open layer.Open) {
	const victim = 2
	check(t, run(4, sim.Options{}, open, func(r *rank) error {
		r.w.ready++
		if err := r.until("all to be there", func() bool { return r.w.ready == 4 }); err != nil {
			return err
		}
		if r.me == victim {
			r.w.Kill(r.w.stations[victim])
			return errKilled
		}
		began := r.w.Now()
		data := make([]byte, 32)
		var err error
		switch r.me {
		case 0: // requests data from the dead rank
			for err == nil {
				if err = r.Get(bg, victim, data, 4096); err == nil {
					err = r.synced()
				}
			}
		case 1: // stores to the dead rank
			for err == nil {
				if err = r.Store(bg, victim, 4096, data); err == nil {
					err = r.Poll()
				}
				if err == nil {
					err = r.watch.Check(bg)
				}
				if e := r.w.Sleep(time.Millisecond); e != nil {
					return e
				}
			}
		default: // waits for a message that no rank sends
			err = r.until("nothing", func() bool { return false })
		}
		var failed *job.RankError
		if !errors.As(err, &failed) || failed.Rank != victim {
			return fmt.Errorf("%w, want that rank %d has failed", err, victim)
		}
		if took := time.Duration(r.w.Now() - began); took > 3*peerTimeout {
			return fmt.Errorf("to hear of the death of a rank took %v", took)
		}
		r.member.Fail(err)
		return errKilled // this rank has ended, too
	}))
}
