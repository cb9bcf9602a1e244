package conn

import (
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// Send queues a send, RDMA write or RDMA read of size bytes, and sends it if possible. It returns
// false if the queue is full.
func (c *Conn) Send(d *Descriptor, size uint32, when When) bool {
	d.total, d.when = size, when
	if !c.SQ.enqueue(d) {
		return false
	}
	switch c.State {
	case code.StateConnectPending: // goes when the connection is made
		c.Stats.Sends++
	case code.StateConnected:
		c.Stats.Sends++
		if when == Late {
			c.leaveToPoll()
			c.shared.eng.WakeBefore(c.shared.now) // the goroutine that sleeps on the link sends it
		} else {
			c.sendPosted()
		}
	case code.StateIdle, code.StateError:
		c.tx.cursor.next = c.SQ.tail
		c.SQ.complete(c, d.opStatus()|code.StatusFlushed, 0)
	}
	return true
}

// PostReceive queues a buffer of size bytes for one message. It returns false if the queue is full.
func (c *Conn) PostReceive(d *Descriptor, size uint32) bool {
	d.total, d.HasImmediate, d.rxState = size, false, rxState{}
	if !c.RQ.enqueue(d) {
		return false
	}
	if c.State == code.StateError {
		c.RQ.complete(c, code.StatusOpReceive|code.StatusFlushed, 0)
	}
	return true
}
