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
	Accepted [statusCount]uint64
	Denied   uint64 // by Authorize, or an AuthStat from the procedure
	NoReply  uint64 // ErrNoReply
}

// Snapshot is what a server has counted since it was made. The counters are read one by
// one while others change them.
type Snapshot struct {
	Programs []ProgramSnapshot // by number and version

	NotACall     uint64 // messages that are no call: there was nobody to answer
	RPCMismatch  uint64 // calls of another version of the RPC protocol
	ProgUnavail  uint64
	ProgMismatch uint64
	AuthErrors   [len(authTexts)]uint64 // denied calls, by AuthStat
	Panics       uint64                 // of procedures

	ConnsOpen     int    // connections that are open
	Conns         uint64 // that were accepted
	ConnsRefused  uint64 // closed at once, because MaxConns were open, or MaxPeerConns of the peer
	ConnsTimedOut uint64 // closed because half a call, or nothing, came, or a reply was not read
	ConnsBroken   uint64 // closed for what they sent: no call, a record that is too long, or one for which there was no memory

	Datagrams              uint64 // received
	DatagramsTruncated     uint64 // longer than a datagram can be received; dropped
	DatagramSendErrors     uint64 // replies that the kernel did not take
	Duplicates             uint64 // calls answered from the duplicate request cache
	DuplicatesDropped      uint64 // calls that are being carried out already, or had no reply
	DuplicatesEvictedYoung uint64 // replies that left the cache before their time, because it was full
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
