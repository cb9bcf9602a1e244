package msg

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
)

// Short stores to a rank share a message: it costs far more than they do, and nobody
// waits for one of them alone. A message of Stores has records behind its header, each of
// a word, the offset with the length in its highest byte, and the data.
//
// A store is held back until its message is full, or until this rank polls or waits. The
// first one after that leaves at once, and so does one that comes later than aloneAfter
// after the message before was begun: a rank that answers what it has waited for, or
// computes between one store and the next, holds nothing back. What is left of a burst is,
// until the next call that polls: so it is with all that needs this rank.
const (
	recordHead = 8
	recordBits = 56                   // of the offset
	storesData = 8 * (recordHead + 8) // eight stores of 8 bytes, ten of 4
	aloneAfter = int64(20 * time.Microsecond)
)

// cork holds stores to a rank back.
type cork struct {
	used   int   // bytes of mem
	began  int64 // when the first of a message came
	turn   uint  // Operations.turn at that time
	listed bool  // in Operations.corked
	mem    [storesData]byte
}

// New returns the operations of a base over a carrier. The base's Uncork is to be SendHeld.
func New(b *mesh.Base, c Carrier) Operations {
	return Operations{Base: b, Carrier: c, corks: make([]cork, b.Procs), corked: make([]int, 0, b.Procs)}
}

// storeShort starts a store of at most shortData bytes.
func (o *Operations) storeShort(ctx context.Context, proc int, off uint64, src []byte) error {
	if o.Err != nil {
		return o.Err
	}
	c := &o.corks[proc]
	if c.used == 0 {
		now := o.NIC.Now()
		alone := c.turn != o.turn || now-c.began > aloneAfter
		c.began, c.turn = now, o.turn
		if alone {
			return o.storeAlone(ctx, proc, off, src)
		}
	} else if c.used+recordHead+len(src) > len(c.mem) {
		b, _, err := o.Carrier.Room(ctx, proc, Short)
		if err != nil {
			return err
		}
		if err := o.release(proc, b); err != nil {
			return err
		}
		c.began, c.turn = o.NIC.Now(), o.turn
	}
	c.add(off, src)
	if !c.listed {
		c.listed = true
		o.corked = append(o.corked, proc)
	}
	return nil
}

// storeAlone sends a store that is held back by nothing.
func (o *Operations) storeAlone(ctx context.Context, proc int, off uint64, src []byte) error {
	b, _, err := o.Carrier.Room(ctx, proc, Short)
	if err != nil {
		return err
	}
	o.corks[proc].add(off, src)
	return o.release(proc, b)
}

// add adds a record.
func (c *cork) add(off uint64, src []byte) {
	binary.LittleEndian.PutUint64(c.mem[c.used:], off|uint64(len(src))<<recordBits)
	c.used += recordHead + copy(c.mem[c.used+recordHead:], src)
}

// release sends what is held back of a rank, if anything is, in the memory that Room has
// returned.
func (o *Operations) release(proc int, b []byte) error {
	c := &o.corks[proc]
	if c.used == 0 { // it went while room was waited for
		return nil
	}
	b[0] = Stores
	clear(b[2:HeaderSize])
	n := HeaderSize + copy(b[HeaderSize:], c.mem[:c.used])
	c.used = 0
	o.Did.Requests++
	return o.Carrier.Send(proc, Short, n, nil)
}

// SendHeld sends what is held back, as far as there is room. A rank that is gone is the
// failure.
func (o *Operations) SendHeld() {
	o.turn++
	left := o.corked[:0]
	for _, proc := range o.corked {
		c := &o.corks[proc]
		if c.used > 0 && !o.Carrier.Ready(proc, Short) {
			left = append(left, proc)
			continue
		}
		c.listed = false
		if c.used == 0 {
			continue
		}
		b, _, err := o.Carrier.Room(context.Background(), proc, Short)
		if err == nil {
			err = o.release(proc, b)
		}
		if err != nil { // Err has it
			c.used = 0
		}
	}
	o.corked = left
}

// stores does what a message of Stores asks for, and reports whether it is one.
func (o *Operations) stores(data []byte) bool {
	for len(data) > 0 {
		if len(data) <= recordHead {
			return false
		}
		word := binary.LittleEndian.Uint64(data)
		off, n := word&(1<<recordBits-1), int(word>>recordBits)
		if data = data[recordHead:]; n == 0 || n > shortData || n > len(data) {
			return false
		}
		o.store(off, data[:n])
		data = data[n:]
	}
	return true
}

// store writes to the heap, where the bytes count, or refuses to.
func (o *Operations) store(off uint64, data []byte) {
	if !layer.Within(len(o.Memory), off, len(data)) {
		o.Did.Refused++
		return
	}
	o.Count.Stored += uint64(copy(o.Memory[off:], data))
}
