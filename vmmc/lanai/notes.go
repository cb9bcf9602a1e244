package lanai

import (
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Notifications
//
// A process has room for maxNotes notifications of each other one that it has not handled. Who
// sends one takes of that room, and gets it back when some have been handled. One for which
// there is no room follows its write later.
//
// Config.Drop has the packet be lost that carries a notification, and the room for it would be lost
// with it. So who has no room left, and no send under way that notifies, tells how many
// notifications it has sent: what has not come by then will not come, and its room is given back.

const maxNotes = 32

// notes is what a connection knows of notifications, either way.
type notes struct {
	room    int                // for those that may be sent
	waiting fifo.Queue[uint32] // slots of regions whose notifications wait for room
	under   int                // sends with one that have not ended
	sent    uint32             // so far
	told    bool               // the peer has been told of them, and has given no room since

	owed  int    // of the peer's, those whose room is not given back yet
	heard uint32 // of the peer's, those that have come or are known to be lost
}

// mayNotify reports whether a notification goes with a write. Otherwise it follows when
// there is room.
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

// notifies counts a send that notifies, for which there is room.
func (k *conn) notifies() {
	n := &k.notes
	n.room--
	n.under++
	n.sent++
	k.p.count.Notes++
}

// notified hears that one has ended.
func (k *conn) notified() {
	k.notes.under--
	k.tellSent()
}

// tellSent tells the peer how many notifications it has been sent, if some may be lost and there is
// no more room.
func (k *conn) tellSent() {
	n := &k.notes
	if k.p.h.cfg.Drop && !k.ended && !n.told && n.room+n.under == 0 && n.waiting.Len() > 0 {
		n.told = true
		k.say(body(sayNotified, n.sent))
	}
}

// given takes room that the peer has given.
func (k *conn) given(room int) {
	n := &k.notes
	n.room, n.told = min(n.room+room, maxNotes), false
	k.sendWaiting()
	k.tellSent()
}

// sendWaiting sends the notifications that there is room for.
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
		k.p.add(part{s: s, short: true, notify: true})
		k.p.push()
		k.p.h.drive()
		k.p.h.host.Engine.Unlock()
	}
}

// notified hands on a notification for the grant that has a frame.
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

// toldSent hears how many notifications the peer has sent. All that have not been lost have come
// before this.
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

// owe gives room for notifications back, some at a time.
func (k *conn) owe() {
	if k.notes.owed++; k.notes.owed >= maxNotes/2 {
		k.giveRoom()
	}
}

func (k *conn) giveRoom() {
	k.say([]byte{sayCredit, byte(k.notes.owed)})
	k.notes.owed = 0
}
