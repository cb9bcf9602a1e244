package engine

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// TimeWait has the connections that this side has left.
type TimeWait struct {
	m     *Machine
	table endedTable
	gate  progress.Gate // opens when all their peers know
}

const (
	timeWaitMax = 1024        // connections; more only if a NIC with more VIs closes
	closeFirst  = 2_000_000   // ns until a peer is told again of the end, doubling up to closeEach
	closeEach   = 32_000_000  // ns
	closeMax    = 250_000_000 // ns that a NIC takes to close
)

// Add puts a connection, which its owner leaves for the given reason, into time-wait. known
// says that its peer knows.
func (t *TimeWait) Add(c *conn.Conn, why code.Reason, known bool) {
	t.table.Add(endedConn{
		Header: c.LastWord(), Why: byte(why), LocalTag: c.LocalTag, Port: c.Port,
		At: t.m.Now(), Known: known, Unreliable: !c.Reliable,
	}, max(timeWaitMax, t.m.Ports.Count))
}

// answer answers h if it belongs to a connection in time-wait, and reports whether that is
// all that is to be said.
func (t *TimeWait) answer(h *ethertype.Header) bool {
	before := t.table.Waiting()
	answer, ended := t.table.Answer(h)
	t.openIfAllKnow(before)
	if answer == answerAgain && t.m.Strangers.Answers.Allow(guard.Reset, t.m.Now()) {
		t.m.SendControl(ended.Header, []byte{ended.Why})
	}
	return answer != answerStranger
}

// confirm notes that the peer of a connection knows of its end: h is its answer to a frame
// with the given tag. It reports whether there is such a connection.
func (t *TimeWait) confirm(h *ethertype.Header, tag uint32) bool {
	before := t.table.Waiting()
	ok := t.table.Confirm(h, tag)
	t.openIfAllKnow(before)
	return ok
}

// openIfAllKnow wakes the closing NIC if all peers know now, and did not before.
func (t *TimeWait) openIfAllKnow(before int) {
	if before > 0 && t.table.Waiting() == 0 {
		t.gate.Open(t.m.eng)
	}
}

// TellAll keeps a NIC that closes answering until every peer of a connection that
// it has left knows of that, and tells those again that may not. Without it a
// peer that has lost the word of the end would wait for its PeerTimeout, because nobody is
// left to answer it, and take its last messages for lost. What has ended longer ago than life,
// in ns, its peer has found out by itself.
func (t *TimeWait) TellAll(life int64) {
	m := t.m
	m.ReadClock()
	t.table.Expire(m.Now() - life)
	if m.Info.Virtual && m.eng.Led() {
		return // another process waits on the station, and would have to run first
	}
	w := m.eng.Begin(context.Background())
	defer m.eng.End(&w)
	end := m.Now() + closeMax
	waits := func() bool { return t.table.Waiting() > 0 && m.health.failed == nil }
	for each := int64(closeFirst); waits() && m.Now() < end; each = min(2*each, closeEach) {
		until := min(m.Now()+each, end)
		w.Until(until)
		for waits() && m.Now() < until && m.eng.Wait(&w, &t.gate) == nil {
		}
		t.tellAgain()
	}
}

// tellAgain tells the peers that may not know that their connections are over.
func (t *TimeWait) tellAgain() {
	for ended := range t.table.Unknown() {
		if !t.m.Full() {
			t.m.SendControl(ended.Header, []byte{ended.Why})
		}
	}
	t.m.Flush()
}
