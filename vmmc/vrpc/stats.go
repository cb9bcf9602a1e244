package vrpc

import "sync/atomic"

// statusCount is how many values of AcceptStat there are.
const statusCount = int(SystemErr) + 1

// programStats counts the calls of one version of a program.
type programStats struct {
	accepted [statusCount]atomic.Uint64
	denied   atomic.Uint64
	silent   atomic.Uint64
}

// count counts a call by what status returned.
func (s *programStats) count(status error) {
	switch status := status.(type) {
	case AcceptStat:
		s.accepted[status].Add(1)
	case AuthStat:
		s.denied.Add(1)
	default:
		s.silent.Add(1)
	}
}

// serverStats counts what belongs to no program.
type serverStats struct {
	noCall, rpcMismatch, panics atomic.Uint64
	progUnavail, progMismatch   atomic.Uint64
	auth                        [len(authTexts)]atomic.Uint64

	conns, connsRefused, connsTimedOut, connsBroken       atomic.Uint64
	open                                                  atomic.Int64
	datagrams, datagramsTruncated, datagramSendErrors     atomic.Uint64
	duplicates, duplicatesDropped, duplicatesEvictedYoung atomic.Uint64
}

func (s *serverStats) countAuth(stat AuthStat) {
	if int(stat) >= len(s.auth) {
		stat = AuthFailed
	}
	s.auth[stat].Add(1)
}

// clientStats counts what happens to a transport of a client.
type clientStats struct{ connections, repeated, strays, notAReply atomic.Uint64 }

// ClientSnapshot is what a client's transport has counted since it was made.
type ClientSnapshot struct {
	Connections uint64 // made
	Repeated    uint64 // datagrams that repeated a call
	Strays      uint64 // replies for which no call waited: late, second, forged, or to a batched call
	NotAReply   uint64 // what came and was no reply
}

// Snapshot returns the counters.
func (s *clientStats) Snapshot() ClientSnapshot {
	return ClientSnapshot{s.connections.Load(), s.repeated.Load(), s.strays.Load(), s.notAReply.Load()}
}

// Snapshot returns the counters of the client's transport, which other clients may share;
// zero where the transport has none.
func (c *Client) Snapshot() ClientSnapshot {
	if t, ok := c.transport.(interface{ Snapshot() ClientSnapshot }); ok {
		return t.Snapshot()
	}
	return ClientSnapshot{}
}

// ProgramSnapshot is what became of the calls of one version of a program.
type ProgramSnapshot struct {
	Program, Version uint32
	Name             string
	// Accepted counts the replies by AcceptStat; those of ProgUnavail and ProgMismatch are
	// in Snapshot, unless a procedure returned them.
	Accepted [statusCount]uint64 `metric:"bobnet_rpc_calls_total"`
	Denied   uint64              `metric:"bobnet_rpc_calls_total" reason:"denied" help:"the program does not believe the caller"`
	NoReply  uint64              `metric:"bobnet_rpc_calls_total" reason:"no_reply" help:"the procedure has none"`
}

// Snapshot is what a server has counted since it was made. The counters are read one by
// one while others change them.
type Snapshot struct {
	Programs []ProgramSnapshot // by number and version

	NotACall     uint64                 `metric:"bobnet_rpc_refused_calls_total" reason:"no_call" help:"the message is no call"`
	RPCMismatch  uint64                 `metric:"bobnet_rpc_refused_calls_total" reason:"rpc_mismatch" help:"it is of another version of the RPC protocol"`
	ProgUnavail  uint64                 `metric:"bobnet_rpc_refused_calls_total" reason:"program_unavailable" help:"the server does not have the program"`
	ProgMismatch uint64                 `metric:"bobnet_rpc_refused_calls_total" reason:"program_mismatch" help:"the server has other versions of the program"`
	AuthErrors   [len(authTexts)]uint64 `metric:"bobnet_rpc_refused_calls_total" reason:"authentication" help:"the server does not believe the caller, or the program does not"` // denied calls, by AuthStat
	Panics       uint64                 `metric:"bobnet_rpc_procedure_panics_total" help:"Procedures that have panicked."`

	ConnsOpen     int    `metric:"bobnet_rpc_connections" help:"Connections that are open."`
	Conns         uint64 `metric:"bobnet_rpc_connections_total" help:"Connections that were accepted."`
	ConnsRefused  uint64 `metric:"bobnet_rpc_refused_connections_total" help:"Connections closed at once, because too many were open."`
	ConnsTimedOut uint64 `metric:"bobnet_rpc_timed_out_connections_total" help:"Connections closed because half a call, or nothing, came, or a reply was not read."`
	ConnsBroken   uint64 `metric:"bobnet_rpc_broken_connections_total" help:"Connections closed for what they sent."`

	Datagrams              uint64 `metric:"bobnet_rpc_datagrams_total" help:"Datagrams received."`
	DatagramsTruncated     uint64 `metric:"bobnet_rpc_truncated_datagrams_total" help:"Datagrams dropped because they are longer than can be received."`
	DatagramSendErrors     uint64 `metric:"bobnet_rpc_unsent_replies_total" help:"Replies that the kernel did not take."`
	Duplicates             uint64 `metric:"bobnet_rpc_duplicates_answered_total" help:"Calls that were repeated and answered from the duplicate request cache."`
	DuplicatesDropped      uint64 `metric:"bobnet_rpc_duplicates_dropped_total" help:"Calls that were repeated while they were carried out, or have no reply."`
	DuplicatesEvictedYoung uint64 `metric:"bobnet_rpc_duplicates_forgotten_total" help:"Replies that left the duplicate request cache before their time, because it was full."`
}

// Snapshot returns the counters.
func (s *Server) Snapshot() Snapshot {
	t := &s.stats
	n := Snapshot{
		NotACall: t.noCall.Load(), RPCMismatch: t.rpcMismatch.Load(), Panics: t.panics.Load(),
		ProgUnavail: t.progUnavail.Load(), ProgMismatch: t.progMismatch.Load(),
		ConnsOpen: int(t.open.Load()), Conns: t.conns.Load(), ConnsRefused: t.connsRefused.Load(),
		ConnsTimedOut: t.connsTimedOut.Load(), ConnsBroken: t.connsBroken.Load(),
		Datagrams: t.datagrams.Load(), DatagramsTruncated: t.datagramsTruncated.Load(),
		DatagramSendErrors: t.datagramSendErrors.Load(), Duplicates: t.duplicates.Load(),
		DuplicatesDropped:      t.duplicatesDropped.Load(),
		DuplicatesEvictedYoung: t.duplicatesEvictedYoung.Load(),
	}
	for i := range t.auth {
		n.AuthErrors[i] = t.auth[i].Load()
	}
	for _, p := range s.programs() {
		v := ProgramSnapshot{Program: p.number, Version: p.version, Name: p.name, Denied: p.stats.denied.Load(), NoReply: p.stats.silent.Load()}
		for i := range p.stats.accepted {
			v.Accepted[i] = p.stats.accepted[i].Load()
		}
		n.Programs = append(n.Programs, v)
	}
	return n
}
