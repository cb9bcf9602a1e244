package lanai

import (
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Notifications
//
// A process accepts maxNotes unhandled notifications from each other process. Sending a
// notification uses a credit, which returns when some have been handled. A notification without a
// credit follows its write later.
//
// With Config.Drop, the packet that carries a notification may be lost, and its credit with it. So
// a sender without credits, and without sends in progress that notify, reports how many
// notifications it has sent. Those that have not arrived by then are lost, and their credits are
// returned.

const maxNotes = 32

// notes is the notification state of a connection, in both directions.
type notes struct {
	room    int                // credits
	waiting fifo.Queue[uint32] // slots of regions whose notifications wait for a credit
	under   int                // sends with a notification that have not ended
	sent    uint32             // sent so far
	told    bool               // sent was reported to the peer, which has returned no credit since

	owed  int    // credits to return to the peer
	heard uint32 // notifications of the peer that have arrived or are known to be lost
}

// mayNotify reports whether a write may carry a notification. Otherwise the notification follows
// when there is a credit.
func (k *conn) mayNotify(x *region) bool {
	n := &k.notes
	if n.room > 0 && n.waiting.Len() == 0 {
		k.notifies()
		return true
	}
	k.p.count.NotesWaited++
	n.waiting.Push(x.Slot)
	k.tellSent()
	return false
}

// notifies counts a send with a notification.
func (k *conn) notifies() {
	n := &k.notes
	n.room--
	n.under++
	n.sent++
	k.p.count.Notes++
}

// notified records the end of a send with a notification.
func (k *conn) notified() {
	k.notes.under--
	k.tellSent()
}

// tellSent reports to the peer how many notifications were sent, if some may be lost and no credit
// is left.
func (k *conn) tellSent() {
	n := &k.notes
	if k.p.h.cfg.Drop && !k.ended && !n.told && n.room+n.under == 0 && n.waiting.Len() > 0 {
		n.told = true
		k.say(body(sayNotified, n.sent))
	}
}

// given adds credits from the peer.
func (k *conn) given(room int) {
	n := &k.notes
	n.room, n.told = min(n.room+room, maxNotes), false
	k.sendWaiting()
	k.tellSent()
}

// sendWaiting sends waiting notifications as far as there are credits.
func (k *conn) sendWaiting() {
	for n := &k.notes; !k.ended && n.room > 0 && n.waiting.Len() > 0; {
		x := k.regions[n.waiting.Pop()]
		if x == nil || x.leaving {
			continue
		}
		k.notifies()
		s := k.p.record()
		s.x, s.notifies = x, true
		x.Busy++
		k.busy++
		k.p.h.host.Engine.Lock()
		k.p.queueRequest(part{s: s, short: true, notify: true})
		k.p.push()
		k.p.h.drive()
		k.p.h.host.Engine.Unlock()
	}
}

// notified passes a notification to the grant that contains a frame.
func (p *process) notified(frame uint32) {
	for _, k := range p.conns {
		g, taken := k.Grants.ByPage(frame)
		if g == nil {
			continue
		}
		k.notes.heard++
		if taken {
			k.owe()
			return
		}
		p.up.Notified(g)
		return
	}
}

// toldSent handles the peer's report of its sent notifications. All that were not lost have arrived
// before it.
func (k *conn) toldSent(sent uint32) {
	n := &k.notes
	lost := int32(sent - n.heard)
	if lost <= 0 {
		return
	}
	n.heard = sent
	n.owed += int(min(lost, maxNotes))
	k.giveRoom()
}

// Handled implements provider.Provider.
func (p *process) Handled(x *provider.Grant) {
	if k := x.Link.(*conn); !k.ended {
		k.owe()
	}
}

// owe returns credits, several at a time.
func (k *conn) owe() {
	if k.notes.owed++; k.notes.owed >= maxNotes/2 {
		k.giveRoom()
	}
}

func (k *conn) giveRoom() {
	k.say([]byte{sayCredit, byte(k.notes.owed)})
	k.notes.owed = 0
}
