package layertest

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// leaving: a rank asks another one for all kinds of things, says its last words and closes
// its layer. The other one, which has not listened so far, or always has, gets these, and
// that nobody can be answered is no failure of its own.
func leaving(open layer.Open, opts sim.Options, listens bool) error {
	const both, left, heard = 2, 3, 4
	return run(2, opts, open, func(r *rank) error {
		r.w.ready++
		if err := r.until("both to have begun", func() bool { return r.w.ready >= both }); err != nil {
			return err
		}
		if r.me == 1 {
			if err := r.leave(); err != nil {
				return err
			}
			r.w.ready = max(r.w.ready, left)
			return r.pass(heard) // what it holds beside the layer stays until the other one is done
		}
		if !listens {
			if err := r.pass(left); err != errKilled {
				return err
			}
		}
		if err := r.until("last words", func() bool { return len(r.controls[1]) >= layer.MaxControls }); err != nil {
			return err
		}
		for end := r.w.Now() + int64(time.Second); r.w.Now() < end; {
			if err := r.Wait(r.watch.Slice()); err != nil {
				return fmt.Errorf("after rank 1 has left: %w", err)
			}
		}
		for i, word := range r.controls[1] {
			if word != uint32(i) {
				return fmt.Errorf("it got %d as last word %d", word, i)
			}
		}
		r.w.ready = heard
		return errKilled
	})
}

// leave asks rank 0 for more than is acknowledged at a time, and closes the layer.
func (r *rank) leave() error {
	data := pattern(make([]byte, 16), 1)
	var result [layer.MaxCall]byte
	for range 20 {
		if err := r.Store(bg, 0, 4096, data); err != nil {
			return err
		}
	}
	if err := r.Layer.Call(bg, 0, 1, data, result[:]); err != nil {
		return err
	}
	var msg [layer.MaxControl]byte
	for i := range layer.MaxControls {
		binary.LittleEndian.PutUint32(msg[:], uint32(i))
		if err := r.Layer.Control(bg, 0, msg[:controlSize(i)]); err != nil {
			return err
		}
	}
	r.closed = true
	r.Close()
	return nil
}

// pass lets time pass until the test is at a point, with a NIC that answers and a layer that
// does not.
func (r *rank) pass(until int) error {
	for r.w.ready < until {
		r.nic.Poll()
		if err := r.w.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	return errKilled
}
