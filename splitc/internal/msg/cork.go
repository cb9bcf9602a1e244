package msg

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// Short stores to a rank share a message, because a message costs far more than a store, and no one
// waits for a single store. A message of Stores has records after its header. Each record is a word
// with the offset, and the length in its highest byte, followed by the data.
//
// A store is held back until its message is full, or until this rank polls or waits. The first
// store after that is sent at once, and so is a store later than aloneAfter after the start of the
// previous message. So a rank that answers a message, or computes between two stores, holds nothing
// back. The rest of a burst is held back until the next call that polls, like everything else that
// needs this rank.
const (
	recordHead = 8
	recordBits = 56                   // of the offset
	storesData = 8 * (recordHead + 8) // eight stores of 8 bytes, ten of 4
	aloneAfter = int64(20 * time.Microsecond)
)

// cork holds back stores to a rank.
type cork struct {
	used   int   // bytes of mem
	began  int64 // time of the first store of a message
	turn   uint  // Layer.turn at that time
	listed bool  // in Layer.corked
	mem    [storesData]byte
}

// storeShort starts a store of at most shortData bytes.
func (l *Layer) storeShort(ctx context.Context, proc int, off uint64, src []byte) error {
	if l.Err != nil {
		return l.Err
	}
	c := &l.corks[proc]
	if c.used == 0 {
		now := l.NIC.Now()
		alone := c.turn != l.turn || now-c.began > aloneAfter
		c.began, c.turn = now, l.turn
		if alone {
			return l.storeAlone(ctx, proc, off, src)
		}
	} else if c.used+recordHead+len(src) > len(c.mem) {
		b, via, err := l.room(ctx, proc, Short)
		if err != nil {
			return err
		}
		if err := l.release(via, b); err != nil {
			return err
		}
		c.began, c.turn = l.NIC.Now(), l.turn
	}
	c.addRecord(off, src)
	if !c.listed {
		c.listed = true
		l.corked = append(l.corked, proc)
	}
	return nil
}

// storeAlone sends a store without holding it back.
func (l *Layer) storeAlone(ctx context.Context, proc int, off uint64, src []byte) error {
	b, via, err := l.room(ctx, proc, Short)
	if err != nil {
		return err
	}
	l.corks[proc].addRecord(off, src)
	return l.release(via, b)
}

// addRecord adds a record.
func (c *cork) addRecord(off uint64, src []byte) {
	binary.LittleEndian.PutUint64(c.mem[c.used:], off|uint64(len(src))<<recordBits)
	c.used += recordHead + copy(c.mem[c.used+recordHead:], src)
}

// release sends the stores that are held back for a rank, in the memory that room has returned.
func (l *Layer) release(via *Channel, b []byte) error {
	c := &l.corks[via.Rank]
	if c.used == 0 { // they were sent while room was waited for
		return nil
	}
	b[0] = Stores
	clear(b[2:HeaderSize])
	n := HeaderSize + copy(b[HeaderSize:], c.mem[:c.used])
	c.used = 0
	return l.send(via, n, nil)
}

// SendHeld sends the stores that are held back, as far as there is room. If a rank has gone, that
// is the failure.
func (l *Layer) SendHeld() {
	if l.Err != nil {
		return
	}
	l.turn++
	left := l.corked[:0]
	for _, proc := range l.corked {
		c, via := &l.corks[proc], l.channels[proc][Short]
		if c.used > 0 && via.Gone == nil && !via.flow.Room() {
			left = append(left, proc)
			continue
		}
		c.listed = false
		if c.used == 0 {
			continue
		}
		b, _, err := l.room(context.Background(), proc, Short)
		if err == nil {
			err = l.release(via, b)
		}
		if err != nil { // it is in Err
			c.used = 0
		}
	}
	l.corked = left
}

// stores performs the stores of a message of Stores, and reports whether it is valid.
func (l *Layer) stores(data []byte) bool {
	for len(data) > 0 {
		if len(data) <= recordHead {
			return false
		}
		word := binary.LittleEndian.Uint64(data)
		off, n := word&(1<<recordBits-1), int(word>>recordBits)
		if data = data[recordHead:]; n == 0 || n > shortData || n > len(data) {
			return false
		}
		l.store(off, data[:n])
		data = data[n:]
	}
	return true
}

// store writes to the heap and counts the bytes, or refuses to.
func (l *Layer) store(off uint64, data []byte) {
	if !layer.Within(len(l.Memory), off, len(data)) {
		l.Did.Refused++
		return
	}
	l.Count.Stored += uint64(copy(l.Memory[off:], data))
}
