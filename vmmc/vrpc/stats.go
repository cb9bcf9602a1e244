package vrpc

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/internal/counters"
)

// statusCount is the number of values of AcceptStat.
const statusCount = int(SystemErr) + 1

// programStats counts the calls of one version of a program.
type programStats struct {
	Accepted        [statusCount]atomic.Uint64
	Denied, NoReply atomic.Uint64
}

// count counts a call by the result of status.
func (s *programStats) count(status error) {
	switch status := status.(type) {
	case AcceptStat:
		s.Accepted[status].Add(1)
	case AuthStat:
		s.Denied.Add(1)
	default:
		s.NoReply.Add(1)
	}
}

// serverStats are the counters that belong to no program.
type serverStats struct {
	NotACall, RPCMismatch, Panics atomic.Uint64
	ProgUnavail, ProgMismatch     atomic.Uint64
	AuthErrors                    [len(authTexts)]atomic.Uint64

	Conns, ConnsRefused, ConnsTimedOut, ConnsBroken       atomic.Uint64
	ConnsOpen                                             atomic.Int64
	Datagrams, DatagramsTruncated, DatagramSendErrors     atomic.Uint64
	Duplicates, DuplicatesDropped, DuplicatesEvictedYoung atomic.Uint64
}

func (s *serverStats) countAuth(stat AuthStat) {
	if int(stat) >= len(s.AuthErrors) {
		stat = AuthFailed
	}
	s.AuthErrors[stat].Add(1)
}

// clientStats are the counters of a client's transport.
type clientStats struct{ Connections, Repeated, Strays, NotAReply atomic.Uint64 }

// ClientSnapshot has the counters of a client's transport since its creation.
type ClientSnapshot struct {
	Connections uint64 // connections made
	Repeated    uint64 // datagrams that repeated a call
	Strays      uint64 // replies for which no call waited: late, second, forged, or to a batched call
	NotAReply   uint64 // messages that were not replies
}

// Snapshot returns the counters.
func (s *clientStats) Snapshot() (n ClientSnapshot) {
	counters.Load(&n, s)
	return n
}

// Snapshot returns the counters of the client's transport, which other clients may share. It
// returns zeros if the transport has no counters.
func (c *Client) Snapshot() ClientSnapshot {
	if t, ok := c.transport.(interface{ Snapshot() ClientSnapshot }); ok {
		return t.Snapshot()
	}
	return ClientSnapshot{}
}

// ProgramSnapshot has the counters of one version of a program. It counts calls by their outcome.
type ProgramSnapshot struct {
	Program, Version uint32
	Name             string
	// Accepted counts the replies by AcceptStat. Those with ProgUnavail and ProgMismatch are in
	// Snapshot, unless a procedure returned them.
	Accepted [statusCount]uint64 `metric:"bobnet_rpc_calls_total"`
	Denied   uint64              `metric:"bobnet_rpc_calls_total" reason:"denied" help:"the program did not accept the caller's authentication"`
	NoReply  uint64              `metric:"bobnet_rpc_calls_total" reason:"no_reply" help:"the procedure sends no reply"`
}

// Snapshot are a server's counters since it was created. They are read one after the other while
// others change them.
type Snapshot struct {
	Programs []ProgramSnapshot // by number and version

	ConnsOpen     int    `metric:"bobnet_rpc_connections" help:"Open connections."`
	Conns         uint64 `metric:"bobnet_rpc_connections_total" help:"Connections accepted." text:"connections"`
	ConnsRefused  uint64 `metric:"bobnet_rpc_refused_connections_total" help:"Connections closed at once, because too many were open." text:"refused connections"`
	ConnsTimedOut uint64 `metric:"bobnet_rpc_timed_out_connections_total" help:"Connections closed by a timeout: idle, an incomplete call, or an unread reply." text:"timed-out connections"`
	ConnsBroken   uint64 `metric:"bobnet_rpc_broken_connections_total" help:"Connections closed because of malformed data." text:"broken connections"`

	Datagrams              uint64 `metric:"bobnet_rpc_datagrams_total" help:"Datagrams received." text:"datagrams"`
	DatagramsTruncated     uint64 `metric:"bobnet_rpc_truncated_datagrams_total" help:"Datagrams dropped because they exceed the receive buffer." text:"truncated datagrams"`
	DatagramSendErrors     uint64 `metric:"bobnet_rpc_unsent_replies_total" help:"Replies that the kernel could not send." text:"replies not sent"`
	Duplicates             uint64 `metric:"bobnet_rpc_duplicates_answered_total" help:"Repeated calls answered from the duplicate request cache." text:"duplicates answered"`
	DuplicatesDropped      uint64 `metric:"bobnet_rpc_duplicates_dropped_total" help:"Repeated calls dropped because the first one is running or has no reply." text:"duplicates dropped"`
	DuplicatesEvictedYoung uint64 `metric:"bobnet_rpc_duplicates_forgotten_total" help:"Replies evicted early from the full duplicate request cache." text:"replies forgotten early"`

	NotACall     uint64                 `metric:"bobnet_rpc_refused_calls_total" reason:"no_call" help:"the message is not a call" text:"no call"`
	RPCMismatch  uint64                 `metric:"bobnet_rpc_refused_calls_total" reason:"rpc_mismatch" help:"another version of the RPC protocol" text:"other RPC version"`
	ProgUnavail  uint64                 `metric:"bobnet_rpc_refused_calls_total" reason:"program_unavailable" help:"the server does not have the program" text:"no program"`
	ProgMismatch uint64                 `metric:"bobnet_rpc_refused_calls_total" reason:"program_mismatch" help:"the server has other versions of the program" text:"no version"`
	AuthErrors   [len(authTexts)]uint64 `metric:"bobnet_rpc_refused_calls_total" reason:"authentication" help:"the server or the program did not accept the caller's authentication"` // denied calls, by AuthStat
	Panics       uint64                 `metric:"bobnet_rpc_procedure_panics_total" help:"Panics of procedures." text:"panics"`
}

// Snapshot returns the counters.
func (s *Server) Snapshot() (n Snapshot) {
	counters.Load(&n, &s.stats)
	for _, p := range s.programs() {
		v := ProgramSnapshot{Program: p.number, Version: p.version, Name: p.name}
		counters.Load(&v, &p.stats)
		n.Programs = append(n.Programs, v)
	}
	return n
}

// WriteTo writes the snapshot as text: the counters that are not 0, and a line for each version of
// a program. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "RPC server  %d connections open\n  %s\n", s.ConnsOpen, s.counters())
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(s.Programs) > 0 {
		fmt.Fprintln(t, "\n  PROGRAM\tVERSION\tNAME\tSUCCESS\tNO PROCEDURE\tGARBAGE\tSYSTEM ERROR\tDENIED\tNO REPLY")
	}
	for _, p := range s.Programs {
		fmt.Fprintf(t, "  %d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", p.Program, p.Version, cmp.Or(p.Name, "-"), p.Accepted[Success],
			p.Accepted[ProcUnavail], p.Accepted[GarbageArgs], p.Accepted[SystemErr], p.Denied, p.NoReply)
	}
	t.Flush()
	return b.WriteTo(w)
}

// counters lists the counters that are not 0 and belong to no program.
func (s *Snapshot) counters() string {
	parts := counters.NonZero(s)
	for stat, n := range s.AuthErrors {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("denied because %s %d", AuthStat(stat).String(), n))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing has come")
}
