package splitc

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/counters"
)

// Count counts the operations of one kind, and their bytes.
type Count struct {
	Ops   uint64 `metric:"bobnet_splitc_operations_total"`
	Bytes uint64 `metric:"bobnet_splitc_operation_bytes_total"`
}

func (c *Count) add(bytes uint64) {
	c.Ops++
	c.Bytes += bytes
}

// Stats counts the operations that this process has started since Start, on other processes or
// itself.
type Stats struct {
	Reads       Count  `reason:"read"`
	Writes      Count  `reason:"write"`
	Gets        Count  `reason:"get"`
	Puts        Count  `reason:"put"`
	Stores      Count  `reason:"store"`
	Atomics     uint64 `metric:"bobnet_splitc_atomics_total" help:"Atomic procedures called." text:"atomics"`
	Served      uint64 `metric:"bobnet_splitc_atomics_served_total" help:"Atomic procedures run." text:"atomics served"`
	Syncs       uint64 `metric:"bobnet_splitc_syncs_total" help:"Calls of sync." text:"syncs"`
	StoreSyncs  uint64 `metric:"bobnet_splitc_store_syncs_total" help:"Calls of store_sync." text:"store_syncs"`
	Barriers    uint64 `metric:"bobnet_splitc_barriers_total" help:"Barriers." text:"barriers"`
	Collectives uint64 `metric:"bobnet_splitc_collectives_total" help:"Collectives of all kinds; a long one counts once for each part." text:"collectives"`
}

// Waiting describes the wait of a process.
type Waiting struct {
	What  string // the call, or forCredit while it waits for a credit to send
	Named bool   // Proc is valid
	Proc  int
	Bytes uint64 // bytes that a store_sync waits for
	Since int64  // start, on the NIC's clock
}

// of returns the Waiting of a call that waits for one process.
func of(call string, proc int) Waiting { return Waiting{What: call, Named: true, Proc: proc} }

// text describes the wait, in which come bytes have arrived so far.
func (w Waiting) text(come uint64) string {
	text := w.What
	if w.Named {
		text += fmt.Sprintf(", for process %d", w.Proc)
	}
	if w.Bytes > 0 {
		text += fmt.Sprintf(", for %d bytes, of which %d have come", w.Bytes, come)
	}
	return text
}

// forCredit is the description of a call that waits for a credit to send. The process that Waiting
// names has not received earlier messages.
const forCredit = "a call that needs a credit"

// Snapshot is the recent state of a process. In a call that waits, it is at most 20 ms old.
// Otherwise it dates from the latest of these: the last wait that came 20 ms after an earlier one,
// the last 64th call that polls, or the last 256th use of a neighbour's heap. In addition, the
// first call that polls after a call of Snapshot takes a new one.
type Snapshot struct {
	Proc, Procs int
	Layer       string
	HeapSize    int    `metric:"bobnet_splitc_heap_bytes" help:"Length of the spread heap."`
	Allocated   uint64 `metric:"bobnet_splitc_allocated_bytes" help:"Allocated bytes of the spread heap."`
	Outstanding int    `metric:"bobnet_splitc_outstanding_operations" help:"Gets, puts and atomic procedures that are not complete."`
	Received    uint64 `metric:"bobnet_splitc_received_bytes_total" help:"Bytes stored into the heap."`
	Consumed    uint64 // stored bytes that the program has waited for
	Leaving     []int  // other processes that have called Exit
	Failure     string // why the program has failed
	Strays      uint64 `metric:"bobnet_splitc_layer_stray_messages_total"` // unexpected control messages
	Stats       Stats
	Below       LayerStats
	IsWaiting   bool
	Waiting     Waiting       // if IsWaiting
	Waited      time.Duration `metric:"bobnet_splitc_waiting_seconds" help:"Waiting time in the current call; 0 if the process computes."`
}

// Snapshot returns the state of the process. Any goroutine may call it.
func (w *World) Snapshot() Snapshot {
	w.asked.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen
	if s.Procs == 0 { // it has not waited yet
		s.Proc, s.Procs, s.Layer, s.HeapSize = w.me, w.procs, w.cfg.Layer, w.cfg.HeapSize
	}
	if s.IsWaiting {
		s.Waited = time.Duration(w.nic.Now() - s.Waiting.Since)
	}
	return s
}

// publish stores the current state for Snapshot.
func (w *World) publish() {
	if w.layer == nil || w.stop == ErrClosed {
		return
	}
	w.asked.Store(false)
	below := w.layer.Stats()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.seen
	s.Proc, s.Procs, s.Layer, s.HeapSize = w.me, w.procs, w.cfg.Layer, w.cfg.HeapSize
	s.Outstanding, s.Received, s.Consumed = w.count.Outstanding, w.received(), w.consumed
	s.Stats, s.Below, s.Strays = w.stats, below, w.tree.strays
	s.Allocated = w.spans.allocated
	if len(s.Leaving) != w.tree.left {
		s.Leaving = nil
		for proc, leaves := range w.tree.leaves {
			if leaves {
				s.Leaving = append(s.Leaving, proc)
			}
		}
	}
	if w.stop != nil && s.Failure == "" && w.stop != ErrInAtomic {
		s.Failure = w.stop.Error()
	}
}

// showsFailure stores the failure of the program for Snapshot. It does not call the layer, which
// may be in a call.
func (w *World) showsFailure() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Failure == "" {
		w.seen.Failure = w.stop.Error()
	}
}

// shows stores for Snapshot what this process waits for. A wait calls it after each slice of Watch,
// so that short waits have no cost.
func (w *World) shows(what Waiting) {
	w.publish()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.IsWaiting, w.seen.Waiting = true, what
}

// ends stores the end of a wait for Snapshot, if the wait was stored or a slice has begun in it. So
// the counters of a waiting process are never much older than a slice.
func (w *World) ends(shown bool) {
	if w.watch.Renewed() || shown {
		w.resumes()
	}
}

// resumes stores the current state at the end of a wait for Snapshot.
func (w *World) resumes() {
	w.publish()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.IsWaiting = false
}

// observer receives the events of the layer's waits.
type observer struct{ w *World }

// Sliced stores the current state for Snapshot. So a process that waits repeatedly, for a short
// time each, is visible, without an additional read of the clock.
func (o observer) Sliced() { o.w.publish() }

// Stalled stores that the layer waits for a credit.
func (o observer) Stalled(proc int, since int64) {
	o.w.shows(Waiting{What: forCredit, Named: true, Proc: proc, Since: since})
}

// Resumed stores the end of that wait.
func (o observer) Resumed() { o.w.resumes() }

// WriteTo writes the snapshot as text, for a person who investigates why a program hangs. It
// implements io.WriterTo.
func (s Snapshot) WriteTo(to io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "split-c: process %d of %d, layer %s, heap %d bytes, %d allocated\n", s.Proc, s.Procs, s.Layer, s.HeapSize, s.Allocated)
	if s.IsWaiting {
		fmt.Fprintf(&b, "  waits for %v in %s\n", s.Waited.Round(time.Millisecond), s.Waiting.text(s.Received-s.Consumed))
	} else {
		b.WriteString("  computes\n")
	}
	if s.Failure != "" {
		fmt.Fprintf(&b, "  has failed: %s\n", s.Failure)
	}
	if len(s.Leaving) > 0 {
		fmt.Fprintf(&b, "  processes %v have called Exit\n", s.Leaving)
	}
	fmt.Fprintf(&b, "  %d gets, puts and procedures are not complete; %d bytes were stored here, %d of them waited for\n", s.Outstanding, s.Received, s.Consumed)
	var counted []string
	for _, c := range []struct {
		name string
		Count
	}{{"reads", s.Stats.Reads}, {"writes", s.Stats.Writes}, {"gets", s.Stats.Gets}, {"puts", s.Stats.Puts}, {"stores", s.Stats.Stores}} {
		if c.Ops > 0 {
			counted = append(counted, fmt.Sprintf("%s %d (%d bytes)", c.name, c.Ops, c.Bytes))
		}
	}
	s.Below.Strays += s.Strays
	s.Below.CreditTime = s.Below.CreditTime.Round(time.Microsecond)
	writeCounters(&b, "  ", append(counted, counters.NonZero(&s.Stats)...))
	writeCounters(&b, "  layer: ", counters.NonZero(&s.Below))
	n, err := io.WriteString(to, b.String())
	return int64(n), err
}

// writeCounters writes a line with the counters that are not 0, if there are any.
func writeCounters(b *strings.Builder, begin string, list []string) {
	if len(list) > 0 {
		b.WriteString(begin + strings.Join(list, ", ") + "\n")
	}
}
