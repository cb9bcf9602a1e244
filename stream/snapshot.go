package stream

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/counters"
)

// maxListed is the most streams in a snapshot.
const maxListed = 64

// Snapshot is the state of a Host at one moment.
type Snapshot struct {
	Addr ethertype.Addr // address of the NIC
	Counts
	Stats     Stats // sum over all streams, including closed ones
	Open      int   `metric:"bobnet_stream_open_streams" help:"Streams that are open, or whose last data are not acknowledged."`
	Listeners []ListenerSnapshot
	Conns     []ConnSnapshot // at most 64
}

// ListenerSnapshot is the state of a listener at one moment.
type ListenerSnapshot struct {
	Addr             Addr
	Waiting, Backlog int // streams that Accept has not returned, including incomplete handshakes; their maximum
}

// ConnSnapshot is the state of a stream at one moment.
type ConnSnapshot struct {
	Local, Remote Addr
	Stats         Stats
	Unread        uint64 // bytes received and not read
	Unsent        int    // bytes written and not sent
	UnreadThere   uint64 // bytes sent that the other end has not returned credit for
	Underway      int    // messages that are not acknowledged
	Ended         bool   // the other end has ended its data
	Ending        bool   // this end has ended its data
	Lingers       bool   // closed, and the last data are not acknowledged
	Err           string // cause of the end
}

// Snapshot returns the current state of the Host.
func (h *Host) Snapshot() Snapshot {
	h.mu.Lock()
	s := Snapshot{Addr: h.nic.Addr(), Counts: h.counts, Stats: h.left, Open: len(h.conns)}
	conns := make([]*Conn, 0, len(h.conns))
	for c := range h.conns {
		conns = append(conns, c)
	}
	for l := range h.listeners {
		s.Listeners = append(s.Listeners, ListenerSnapshot{Addr: l.addr, Waiting: len(l.slots), Backlog: cap(l.slots)})
	}
	h.mu.Unlock()
	slices.SortFunc(s.Listeners, func(a, b ListenerSnapshot) int { return a.Addr.Addr.Compare(b.Addr.Addr) })
	slices.SortFunc(conns, func(a, b *Conn) int {
		return cmp.Or(a.local.Addr.Compare(b.local.Addr), a.remote.Addr.Compare(b.remote.Addr))
	})
	for _, c := range conns {
		one := c.snapshot()
		counters.Add(&s.Stats, &one.Stats)
		if len(s.Conns) < maxListed {
			s.Conns = append(s.Conns, one)
		}
	}
	return s
}

func (c *Conn) snapshot() ConnSnapshot {
	c.lock()
	defer c.unlock()
	s := ConnSnapshot{
		Local: c.local, Remote: c.remote, Stats: c.stats, Unread: c.rx.Unread(), Unsent: c.tx.stage.Unposted(),
		UnreadThere: c.tx.Unread(), Underway: c.tx.busy, Ended: c.rx.Ended(), Ending: c.tx.ending, Lingers: c.closed,
	}
	if c.err != nil {
		s.Err = c.err.Error()
	}
	return s
}

// WriteTo writes the snapshot as text, for a person who investigates why a program hangs: the host,
// its listeners, and a line for each stream. It implements io.WriterTo.
//
// A growing UNREAD means that the program does not read; the other end then shows a growing THERE.
// A constant UNDERWAY above 0 means that acknowledgements are missing.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "streams on %v: %d open, dialed=%d accepted=%d failed=%d refused=%d abandoned=%d\n",
		s.Addr, s.Open, s.Dialed, s.Accepted, s.Failed, s.Refused, s.Stats.Abandoned)
	fmt.Fprintf(&b, "  read %d bytes, written %d (%d without a copy), messages=%d/%d coalesced=%d credits=%d/%d\n",
		s.Stats.BytesRead, s.Stats.BytesWritten, s.Stats.DirectBytes, s.Stats.MessagesSent, s.Stats.MessagesReceived, s.Stats.Coalesced,
		s.Stats.CreditsSent, s.Stats.CreditsReceived)
	for _, l := range s.Listeners {
		fmt.Fprintf(&b, "  listening at %v, %d of %d waiting to be accepted\n", l.Addr, l.Waiting, l.Backlog)
	}
	for i := range s.Conns {
		c := &s.Conns[i]
		fmt.Fprintf(&b, "  %v to %v: UNREAD %d UNSENT %d THERE %d UNDERWAY %d", c.Local, c.Remote, c.Unread, c.Unsent, c.UnreadThere, c.Underway)
		for _, flag := range []struct {
			set  bool
			text string
		}{{c.Ended, "ended there"}, {c.Ending, "ended here"}, {c.Lingers, "closed"}, {c.Err != "", c.Err}} {
			if flag.set {
				fmt.Fprintf(&b, ", %s", flag.text)
			}
		}
		b.WriteByte('\n')
	}
	if s.Open > len(s.Conns) {
		fmt.Fprintf(&b, "  and %d more\n", s.Open-len(s.Conns))
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
