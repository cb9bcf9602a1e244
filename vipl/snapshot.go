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
	LastHeard     int64 `metric:"bobnet_vi_last_heard_seconds" help:"Time since the last frame from the peer." add:"max"`
	Probes        int   // keepalive probes since then
	FrameData     int   `metric:"bobnet_vi_frame_data_bytes" help:"Message bytes that fit into a frame to the peer; more than the MTU if the path carries long frames." add:"max"`
	LongCut       int   `metric:"bobnet_vi_long_frames_cut" help:"1 if the peer receives the VI's long frames in segments, because the path cuts them, else 0." add:"max"`
	Sender        reliability.SenderStats
	// Pending are the oldest send descriptors that have not completed, at most PendingMax, oldest
	// first. Their total number is SendQueue-SendUntaken.
	Pending []PendingSend
	// Arriving is the oldest message that has arrived in part, and the posted receive that it
	// fills; nil if there is none.
	Arriving *Arriving
	// GivesUp is the time until a pending connection attempt fails; 0 if none is pending.
	GivesUp time.Duration `add:"max"`
	// Err is the cause of the Error state, or of the failure of the last attempt to connect; empty
	// if there is none.
	Err string
}

// PendingMax is the maximum number of sends of one VI in a snapshot.
const PendingMax = 32

// PendingSend is a send descriptor that has been posted and has not completed.
type PendingSend struct {
	Op   Op
	Msg  uint32 // message number in its frames; 0 until the first frame is sent
	Size uint32 // bytes
	Sent uint32 // bytes sent at least once; for an RDMA read, bytes received
	// Age is the time since the first transmission of its oldest unacknowledged frame, and Again
	// the time since the last transmission of that frame. Both are 0 if all its sent frames are
	// acknowledged.
	Age, Again time.Duration
}

// Arriving is a message that has arrived in part.
type Arriving struct {
	Size uint32 // bytes
	Got  uint32 // bytes received
}

// OldestUnacknowledged returns the time since the first transmission of the oldest unacknowledged
// frame; 0 if there is none.
func (s *VISnapshot) OldestUnacknowledged() time.Duration {
	if len(s.Pending) == 0 {
		return 0
	}
	return s.Pending[0].Age
}

// Add adds t's counters and queue lengths to s, for sums over many VIs. For times it keeps the
// longer one.
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
	Names      []string // advertised names
	// LinkErr is why the link fails at present, or has failed for good; empty if it works.
	LinkErr string
	// Others is the number of VIs that VIs omits, and Rest their sum (see Add); 0 and nil if VIs is
	// complete. The snapshot of a NIC with many VIs for the node's agent omits some.
	Others int         `json:",omitempty"`
	Rest   *VISnapshot `json:",omitempty"`
}

// leaveOut keeps the first VIs and adds up the others.
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

// EngineSnapshot is the state of a NIC's progress engine.
type EngineSnapshot struct {
	Driver    string        // "caller asleep", "caller spins", "service asleep", "service looks in" or "nobody"
	Waiting   int           `metric:"bobnet_nic_waiting_goroutines" help:"Waiting goroutines, except the one that drives the engine."`
	LastPoll  time.Duration // since the last poll of a caller
	NextTimer time.Duration // until the next timer is due; negative: overdue; 0 if none is set
	Timers    int           // VIs with a timer
	Spin      time.Duration `metric:"bobnet_nic_spin_seconds" help:"Current time that a wait polls before it blocks."`
	Unsent    int           // frames that the link has not accepted yet
	Holding   int           // VIs that hold back messages to share a frame
}

// ListenerSnapshot is the state of a Listener.
type ListenerSnapshot struct {
	Port    uint16
	Backlog int // requests that wait for Wait or Poll
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

// counters returns the NIC's counters.
func (n *NIC) counters() NICStats {
	c := n.m.Counters()
	s := NICStats{
		TxFrames: c.TxFrames, TxBytes: c.TxBytes, RxFrames: c.RxFrames, RxBytes: c.RxBytes,
		TxDropped: c.TxDropped, Unanswered: n.m.Strangers.Answers.Refused, TxTooLong: c.TxTooLong, TxJoined: c.TxJoined, RxJoined: c.RxJoined, Dropped: DropCounts(c.Dropped),
		CQOverruns: c.CQOverruns, Errors: n.errs.counts, ErrorsLost: n.errs.lost, LogsLost: n.logs.Lost(),
		Failures: c.Failures, LongStarts: c.LongStarts, Closed: n.left,
	}
	s.Regions, s.RegionBytes = n.m.Mem.Size()
	if n.m.Long.Receives {
		s.LongOn = 1
	}
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
	s := VISnapshot{VIStats: statsOf(&v.conn.Stats), Local: v.Local(), Remote: v.conn.Remote, State: State(v.conn.State), Level: v.attr.Reliability,
		SendQueue: v.conn.SQ.Len(), RecvQueue: v.conn.RQ.Len(), SendUntaken: v.conn.SQ.Untaken(), RecvUntaken: v.conn.RQ.Untaken()}
	switch v.conn.State {
	case code.StateConnected:
		s.LastHeard, s.Probes = v.conn.Silence(now)
		s.FrameData = v.conn.Path.MaxData
		if v.conn.Path.UsesLong() && v.conn.Path.Cut {
			s.LongCut = 1
		}
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
		s.Pending = append(s.Pending, PendingSend{Op(p.Op), p.Msg, p.Size, p.Sent, p.Age, p.Again})
	}
	return s
}
