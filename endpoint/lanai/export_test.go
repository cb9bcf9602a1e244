package lanai

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// PageOf returns the frame that an endpoint is in, nil for none.
func PageOf(c *Card, port uint16, id uint32) *myrinet.Page {
	if e := c.driver.find(port, id); e != nil && e.state == endResident {
		return e.frame.page
	}
	return nil
}

// Words of a frame.
const (
	TakenAt  = takenAt
	PostedAt = postedAt
)

// Entry is an entry of a send queue as a program may write it: what goes where.
type Entry struct {
	Flags, Op uint8
	Length    int
	To        ethertype.MAC
	Port      uint16
	Endpoint  uint32
	Message   []byte
}

// The ops of entries.
const (
	OpMessage = opMessage
	OpControl = opControl
)

// Bytes returns the entry, and where entry i of the send queues lies.
func (x *Entry) Bytes(i int) (b []byte, at int) {
	b = make([]byte, entrySize)
	e := entry{x.Flags, x.Op, x.Length, x.To, x.Port, x.Endpoint}
	e.put(b)
	copy(b[entryHead:], x.Message)
	return b, sendAt(i)
}

// FirstOf returns the entry of a set that is sent first by a frame that looks at queue side
// first, and at entry next of each queue.
func FirstOf(set uint16, side int, next [2]int) int {
	f := frame{side: queue(side), sendNext: next}
	return f.firstOf(set)
}
