package mplite

import (
	"context"
	"fmt"
	"runtime"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// share makes the ranks of c, which Init is about to return, share memory for their collectives. They do so if
// all of them are on one host and connected, and if each of them can map the memory: it is then of the same user.
// Rank 0 creates the memory. Otherwise collectives exchange messages. All ranks come to the same decision.
func (w *world) share(ctx context.Context, c *Comm) error {
	if w.onUse || w.size < 2 || w.size > meetRanks || seam.EngineOf(w.nic).Virtual() {
		return nil
	}
	for _, h := range w.hosts {
		if h != 0 {
			return nil
		}
	}
	// Call 0, before the program's first.
	x := &coll{c: c, ctx: ctx, call: callBarrier, rank: c.rank, size: w.size, s: spec{context: c.context | 1, flags: w.order, typ: rawBytes}}
	j := sharing{x: x, size: meetingSize(w.size)}
	defer j.close()
	for _, step := range []func() error{j.offer, j.call, j.serve, j.take} {
		if err := step(); err != nil {
			return fmt.Errorf("mplite: init: share memory: %w", err)
		}
	}
	if !j.all {
		return nil
	}
	c.meet, w.shares = j.m, true
	if w.size > runtime.NumCPU() {
		c.meet.yields = meetYields
		e := seam.EngineOf(w.nic)
		e.Lock()
		e.Crowd()
		e.Unlock()
	}
	return nil
}

// sharing is how a rank gets the memory. Its methods are the steps. Each returns the errors of messages only.
type sharing struct {
	x    *coll
	size int
	mem  *shared.Memory
	m    *meeting      // set if this rank has the memory, and its waits look there
	o    *shared.Offer // at rank 0
	to   *shared.Call  // at the other ranks
	name [shared.NameSize]byte
	all  bool // all ranks have the memory
}

// offer has rank 0 create the memory and send its name to the other ranks. A name of zeros means that there is none.
func (j *sharing) offer() error {
	if j.x.rank == 0 {
		var err error
		if j.mem, j.o, err = shared.NewOffer(j.size); err == nil {
			j.name = j.o.Name
		} else {
			j.note(err)
		}
	}
	return j.x.bcastTree(j.name[:], 0)
}

// call has the other ranks call rank 0.
func (j *sharing) call() error {
	if j.x.rank != 0 && j.name != [shared.NameSize]byte{} {
		var err error
		if j.to, err = shared.NewCall(j.name); err != nil {
			j.note(err)
		}
	}
	return j.x.gatherTree(nil, nil, 0)
}

// serve has rank 0 give the memory to those that have called.
func (j *sharing) serve() error {
	if j.o != nil {
		j.o.Serve()
	}
	return j.x.bcastTree(nil, 0)
}

// take has the other ranks take the memory, and all ranks find out whether all have it.
func (j *sharing) take() error {
	if j.to != nil {
		var err error
		if j.mem, err = j.to.Take(j.size); err != nil {
			j.note(err)
		}
	}
	mine, every := []byte{0}, make([]byte, j.x.size)
	if j.mem != nil {
		m := newMeeting(j.mem, j.mem.Bytes(), j.x.rank, j.x.size)
		if j.x.c.w.cq.LookElsewhere(m.look) { // otherwise another rank of this process has the NIC
			j.m, mine[0] = m, 1
		}
	}
	if err := j.x.gatherTree(mine, every, 0); err != nil {
		return err
	}
	for _, has := range every {
		mine[0] &= has
	}
	err := j.x.bcastTree(mine, 0)
	j.all = mine[0] == 1
	return err
}

// note logs why this rank does not share memory.
func (j *sharing) note(err error) {
	j.x.c.w.cfg.Logger.Debug("collectives exchange messages: no shared memory with the other ranks of this host", "err", err)
}

// close releases everything but memory that the communicator uses.
func (j *sharing) close() {
	if w := j.x.c.w; j.m != nil && !w.shares {
		w.cq.LookElsewhere(nil) // the NIC may have other users after this job
	}
	if j.o != nil {
		j.o.Close()
	}
	if j.to != nil {
		j.to.Close()
	}
}
