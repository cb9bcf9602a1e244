package driver

import (
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/bobnet-go/bobnet/transport"
)

// Counters are the atomic form of transport.Stats. Send and Recv add to them while any goroutine
// takes snapshots.
type Counters struct {
	TxFrames, TxBytes, TxCalls atomic.Uint64
	TxFull, TxDrops, TxXDP     atomic.Uint64
	_                          [16]byte // receivers and senders may run on different cores
	RxFrames, RxBytes, RxCalls atomic.Uint64
	RxDrops, RxTruncated       atomic.Uint64
	RxFiltered, RxCut, RxTorn  atomic.Uint64
	Waits, Wakes               atomic.Uint64
}

// Snapshot returns the counters as they are now.
func (c *Counters) Snapshot() (s transport.Stats) {
	counters.Load(&s, c)
	return s
}

var start = time.Now()

// Now returns the process's monotonic clock in nanoseconds, never 0. It is
// the same clock for every link of the process.
func Now() int64 { return int64(time.Since(start)) + 1 }

// Add adds n to c. It skips 0, which saves a locked bus access.
func Add(c *atomic.Uint64, n int) {
	if n != 0 {
		c.Add(uint64(n))
	}
}
