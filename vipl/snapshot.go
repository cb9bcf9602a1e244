package vipl

import (
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// VISnapshot is a VI's state at one moment.
type VISnapshot struct {
	VIStats
	Local, Remote ethertype.Addr
	State         State
	Level         reliability.Level
	SendQueue     int   `metric:"bobnet_vi_send_queue_descriptors" help:"Descriptors on the send queue."`
	RecvQueue     int   `metric:"bobnet_vi_receive_queue_descriptors" help:"Descriptors on the receive queue."`
	SendUntaken   int   `metric:"bobnet_vi_send_queue_untaken_descriptors" help:"Completed sends that the program has not taken."`
	RecvUntaken   int   `metric:"bobnet_vi_receive_queue_untaken_descriptors" help:"Received messages that the program has not taken."`
	LastHeard     int64 `metric:"bobnet_vi_last_heard_seconds" help:"Time since the peer was last heard." add:"max"`
	Probes        int   // keepalive probes since then
	FrameData     int   `metric:"bobnet_vi_frame_data_bytes" help:"Bytes of messages that a frame to the peer holds: more than the MTU where the path carries long frames." add:"max"`
	Sender        reliability.SenderStats
	// Pending are the oldest send descriptors that have not completed, at
	// most PendingMax; the first is the oldest. SendQueue-SendUntaken is
	// how many there are.
	Pending []PendingSend
	// Arriving is the oldest message of which a part has come, and the posted
	// receive that it goes to; nil if there is none.
	Arriving *Arriving
	// GivesUp is how long a pending connection attempt still has; 0 if none is.
	GivesUp time.Duration `add:"max"`
	// Err is why the VI is in the Error state, or why the last attempt to
	// connect failed; empty if neither is so.
	Err string
}

// PendingMax is the most sends of one VI that a snapshot lists.
const PendingMax = 32

// PendingSend is a send descriptor that has been posted and has not completed.
type PendingSend struct {
	Op   Op
	Msg  uint32 // message number, as its frames carry it; 0 as long as none has been sent
	Size uint32 // bytes
	Sent uint32 // bytes of it that have been sent, once at least; of an RDMA read, bytes that have come
	// Age is the time since its oldest unacknowledged frame was sent first,
	// Again the time since that frame was sent last. Both are 0 when no frame
	// of it is unacknowledged.
	Age, Again time.Duration
}

// Arriving is a message of which a part has come.
type Arriving struct {
	Size uint32 // bytes
	Got  uint32 // bytes that have come
}

// OldestUnacknowledged returns the age of the oldest frame that the peer has
// not acknowledged, counted from when it was sent first; 0 if there is none.
func (s *VISnapshot) OldestUnacknowledged() time.Duration {
	if len(s.Pending) == 0 {
		return 0
	}
	return s.Pending[0].Age
}

// Add adds t's counters and queue lengths to s, for sums over many VIs. Of
// times it keeps the longer one.
func (s *VISnapshot) Add(t *VISnapshot) {
	counters.Add(s, t)
	if t.OldestUnacknowledged() > s.OldestUnacknowledged() {
		s.Pending = t.Pending
	}
}

// Snapshot is a NIC's state at one moment.
type Snapshot struct {
	NICStats
	Attributes NICAttributes
	Link       transport.Stats
	Engine     EngineSnapshot
	VIs        []VISnapshot
	Listeners  []ListenerSnapshot
	Names      []string // that the NIC answers for
	// LinkErr is why the link fails at present, or is dead; empty if it works.
	LinkErr string
	// Others is how many VIs are left out of VIs, as where the node's agent is told of a NIC
	// with many, and Rest is their sum, as Add has it; 0 and nil if none is.
	Others int         `json:",omitempty"`
	Rest   *VISnapshot `json:",omitempty"`
}

// leaveOut keeps some VIs, and adds up the others.
func (s *Snapshot) leaveOut(keep int) {
	if s.Rest == nil {
		s.Rest = &VISnapshot{}
	}
	for i := keep; i < len(s.VIs); i++ {
		s.Rest.Add(&s.VIs[i])
		s.Others++
	}
	s.VIs = s.VIs[:keep]
}

// EngineSnapshot says who drives a NIC's engine and what that waits for.
type EngineSnapshot struct {
	Driver    string        // "caller asleep", "caller spins", "service asleep", "service looks in" or "nobody"
	Waiting   int           `metric:"bobnet_nic_waiting_goroutines" help:"Goroutines that wait for something, the one that drives the engine not among them."`
	LastPoll  time.Duration // since a caller polled last
	NextTimer time.Duration // until the next timer is due; negative: overdue; 0 if none is set
	Timers    int           // VIs with a timer
	Spin      time.Duration `metric:"bobnet_nic_spin_seconds" help:"What a wait polls for at present before it blocks."`
	Unsent    int           // frames that the link did not take yet
	Holding   int           // VIs that hold messages back for a fuller frame
}

// ListenerSnapshot is the state of a Listener.
type ListenerSnapshot struct {
	Port    uint16
	Backlog int // requests that nobody has taken yet
}

// Snapshot returns a copy of every counter of the NIC, its link and its VIs.
func (n *NIC) Snapshot() Snapshot {
	s := Snapshot{Attributes: n.Query(), Link: n.m.Link.Stats()}
	n.eng.Lock()
	defer n.eng.Unlock()
	n.m.FinishReceives()
	now := n.m.Link.Now()
	s.NICStats = n.counters()
	s.Engine = n.engineSnapshot(now)
	for c := range n.m.Ports.Conns() {
		s.VIs = append(s.VIs, viOf(c).snapshot(now))
	}
	for port, l := range n.m.Ports.Listeners {
		s.Listeners = append(s.Listeners, ListenerSnapshot{Port: port, Backlog: l.Backlog.Waiting()})
	}
	slices.SortFunc(s.Listeners, func(a, b ListenerSnapshot) int { return int(a.Port) - int(b.Port) })
	s.Names = n.m.Dir.Names()
	if err := n.m.LinkError(); err != nil {
		s.LinkErr = err.Error()
	}
	return s
}

// counters returns what the NIC has counted.
func (n *NIC) counters() NICStats {
	c := n.m.Counters()
	s := NICStats{
		TxFrames: c.TxFrames, TxBytes: c.TxBytes, RxFrames: c.RxFrames, RxBytes: c.RxBytes,
		TxDropped: c.TxDropped, Unanswered: n.m.Strangers.Answers.Refused, TxTooLong: c.TxTooLong, TxJoined: c.TxJoined, RxJoined: c.RxJoined, Dropped: c.Dropped,
		CQOverruns: c.CQOverruns, Errors: n.errs.counts, ErrorsLost: n.errs.lost, LogsLost: n.logs.Lost(),
		Failures: c.Failures, Closed: n.left,
	}
	s.Regions, s.RegionBytes = n.m.Mem.Size()
	return s
}

func (n *NIC) engineSnapshot(now int64) EngineSnapshot {
	e := n.eng.State(now)
	s := EngineSnapshot{Driver: e.Driver, Waiting: e.Followers, LastPoll: e.LastPoll,
		Timers: n.m.Running(), Spin: e.Spin, Unsent: n.m.Unsent(), Holding: n.m.Corked()}
	if next := n.m.NextTimer(); next != forever {
		s.NextTimer = time.Duration(next - now)
	}
	return s
}

// Snapshot returns a copy of the VI's counters and state.
func (v *VI) Snapshot() VISnapshot {
	v.nic.eng.Lock()
	defer v.nic.eng.Unlock()
	v.nic.m.FinishReceives()
	return v.snapshot(v.nic.m.Link.Now())
}

func (v *VI) snapshot(now int64) VISnapshot {
	s := VISnapshot{VIStats: VIStats(v.conn.Stats), Local: v.Local(), Remote: v.conn.Remote, State: State(v.conn.State), Level: v.attr.Reliability,
		SendQueue: v.conn.SQ.Len(), RecvQueue: v.conn.RQ.Len(), SendUntaken: v.conn.SQ.Untaken(), RecvUntaken: v.conn.RQ.Untaken()}
	switch v.conn.State {
	case code.StateConnected:
		s.LastHeard, s.Probes = v.conn.Silence(now)
		s.FrameData = v.conn.Path.MaxData
		if v.conn.Reliable {
			s.Sender = v.conn.SenderStats()
		}
		s.Arriving = (*Arriving)(v.conn.Arriving())
	case code.StateConnectPending:
		s.GivesUp = time.Duration(v.side.Left(now))
	case code.StateError:
		s.Err = v.conn.End.Err.Error()
	case code.StateIdle:
		if v.side.Err != nil {
			s.Err = v.side.Err.Error()
		}
	}
	for _, p := range v.conn.PendingSends(PendingMax, now) {
		s.Pending = append(s.Pending, PendingSend(p))
	}
	return s
}
