package layertest

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// leaving makes a rank send requests of all kinds to another rank, send its last messages and close
// its layer. The other rank has either polled all the time or not at all. It must receive the last
// messages. That it cannot send answers any more must not count as its own failure.
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
			return r.pass(heard) // state outside the layer remains until the other rank has finished
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

// leave sends more requests to rank 0 than are acknowledged at a time, and closes the layer.
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

// pass lets time pass until the test has reached a point. Meanwhile the NIC answers, and the layer
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
