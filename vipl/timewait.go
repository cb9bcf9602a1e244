package vipl

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
	"github.com/bobnet-go/bobnet/vipl/internal/timewait"
)

// endedConns are the connections that this side has left, in time-wait.
type endedConns struct {
	table timewait.Table
	gate  progress.Gate // opens when all their peers know
}

const (
	timeWaitMax = 1024        // connections; more only if a NIC with more VIs closes
	closeFirst  = 2_000_000   // ns until a peer is told again of the end, doubling up to closeEach
	closeEach   = 32_000_000  // ns
	closeMax    = 250_000_000 // ns that a NIC takes to close
	// timeWait is how long after a connection has ended a peer may still be
	// waiting for the end of it: later it has found out by itself.
	timeWait = int64(DefaultPeerTimeout)
)

// add puts v, which leaves its connection for the given reason, into time-wait. known says
// that its peer knows.
func (t *endedConns) add(v *VI, why conn.Reason, known bool) {
	t.table.Add(timewait.Ended{
		Header: v.conn.LastWord(), Why: byte(why), LocalTag: v.conn.LocalTag, Port: v.conn.Port,
		At: v.nic.conns.Now, Known: known, Unreliable: !v.conn.Reliable,
	}, max(timeWaitMax, v.nic.ports.numVIs))
}

// answer answers h if it belongs to a connection in time-wait, and reports whether that is
// all that is to be said.
func (t *endedConns) answer(n *NIC, h *ethertype.Header) bool {
	before := t.table.Waiting()
	answer, ended := t.table.Answer(h)
	t.told(n, before)
	if answer == timewait.Again && n.strangers.Answers.Take(guard.Reset, n.conns.Now) {
		n.conns.SendControl(ended.Header, []byte{ended.Why})
	}
	return answer != timewait.Stranger
}

// confirm notes that the peer of a connection knows of its end: h is its answer to a frame
// with the given tag. It reports whether there is such a connection.
func (t *endedConns) confirm(n *NIC, h *ethertype.Header, tag uint32) bool {
	before := t.table.Waiting()
	ok := t.table.Confirm(h, tag)
	t.told(n, before)
	return ok
}

// told has who waits for the peers look again if all of them know, and did not before.
func (t *endedConns) told(n *NIC, before int) {
	if before > 0 && t.table.Waiting() == 0 {
		t.gate.Open(&n.eng)
	}
}

// tellAll keeps a NIC that closes answering until every peer of a connection that
// it has left knows of that, and tells those again that may not. Without it a
// peer that has lost the word of the end would wait for its PeerTimeout, because nobody is
// left to answer it, and take its last messages for lost.
func (n *NIC) tellAll() {
	t := &n.ended
	n.conns.Now = n.link.Now()
	t.table.Expire(n.conns.Now - timeWait)
	if n.info.Virtual && n.eng.Led() {
		return // another process waits on the station, and would have to run first
	}
	w := n.eng.Begin(context.Background())
	defer n.eng.End(&w)
	end := n.conns.Now + closeMax
	waits := func() bool { return t.table.Waiting() > 0 && n.health.failed == nil }
	for each := int64(closeFirst); waits() && n.conns.Now < end; each = min(2*each, closeEach) {
		until := min(n.conns.Now+each, end)
		w.Until(until)
		for waits() && n.conns.Now < until && n.wait(&w, &t.gate) == nil {
		}
		n.tellAgain()
	}
}

// tellAgain tells the peers that may not know that their connections are over.
func (n *NIC) tellAgain() {
	for ended := range n.ended.table.Unknown() {
		if !n.conns.Full() {
			n.conns.SendControl(ended.Header, []byte{ended.Why})
		}
	}
	n.conns.Flush()
}
