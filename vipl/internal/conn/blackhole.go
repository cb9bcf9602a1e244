package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// A path that has carried long frames may stop to: somebody puts a bridge in between,
// or switches offloads off. Long frames then vanish while others pass, which is a black
// hole (RFC 8899, section 4.3). The sender finds out when it sends long frames again
// and again, hears the peer, and none of them is acknowledged. Then it falls back to
// frames of the MTU. Long frames under way have numbers, and so they cannot be cut
// anew: they go in pieces; see pieces.go. From time to time, ever more rarely, it asks
// by a probe whether the path carries long frames again.

// blackHole is what a connection knows of how long frames fare. The zero blackHole knows
// nothing.
type blackHole struct {
	losses   int           // times that long frames have gone again while none was acknowledged, and the peer was heard
	seq      ethertype.Seq // the first of them
	mark     uint32        // just before that, in the order of transmissions
	since    int64         // when the first went again
	heard    int64         // when the peer had been heard, the last time
	found    bool          // no long frames
	over     int64         // when that was over the last time
	next     int64         // when to ask whether it is over
	interval int64
}

const (
	holeLosses = 4               // times that mean a black hole,
	holeTime   = 200_000_000     // ns, if it has lasted so long: a ring that runs over loses long frames, too, and not short ones
	holeAgain  = 500_000_000     // ns until the path is asked again first
	holeMax    = 300_000_000_000 // and at the most
)

// note takes note that the long frame with number seq goes again at now. una is the oldest
// number that is not acknowledged, heard is when the peer was heard last, and mark is just
// before the frame went. passed says whether a long one that was sent since p.mark has been
// acknowledged. It reports whether the path does not carry long frames any more.
func (p *blackHole) note(now int64, seq, una ethertype.Seq, heard int64, mark uint32, passed bool) bool {
	switch {
	case p.losses == 0 || p.seq.Less(una) || passed:
		p.losses, p.seq, p.mark, p.since, p.heard = 1, seq, mark, now, heard
	case p.heard != heard:
		p.losses, p.heard = p.losses+1, heard
	}
	return p.losses >= holeLosses && now-p.since >= holeTime
}

// find notes that there are no long frames any more. A path on which they came and went
// is asked the more rarely.
func (p *blackHole) find(now int64) {
	if p.interval == 0 || now-p.over > 4*p.interval {
		p.interval = holeAgain
	}
	p.losses, p.found, p.next = 0, true, now+p.interval
}

// ask reports whether it is time to ask the path.
func (p *blackHole) ask(now int64) bool {
	if !p.found || now < p.next {
		return false
	}
	p.interval = min(2*p.interval, holeMax)
	p.next = now + p.interval
	return true
}

// resendLong sends a long frame again: in pieces if it must not be long any more.
// It reports false when the link takes no more now.
func (t *txHalf) resendLong(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	a, p := t.c.a, &t.c.Path.hole
	if !p.found {
		if !p.note(a.Now, seq, t.sender.Una(), t.c.heard, t.sender.Mark()-1, t.sender.LongerAcked(p.mark, uint32(t.c.Path.Data))) {
			took := t.build(f, seq, flags)
			t.c.SendAck(ethertype.FlagAckNow) // which is short: does the peer hear us?
			return took
		}
		p.find(a.Now)
		t.c.flags &^= ethertype.FlagTakesLong
		if t.c.Path.switching = t.cursor.offset > 0 && t.c.SQ.at(t.cursor.next).Op == OpRDMAWrite; !t.c.Path.switching {
			t.c.Path.MaxData = t.c.Path.Data
		}
		a.log.Info("the path carries long frames no more", "local", t.c.Local(), "remote", t.c.Remote)
	}
	return t.sendPieces(f, seq, flags)
}

// probeLong asks the peer, if it is time, whether the path carries long frames again.
func (p *Path) probeLong() {
	if p.hole.ask(p.c.a.Now) {
		p.SendProbe(ethertype.KindProbe, p.c.a.Long.Size)
	}
}

// leaveHole goes back to long frames, because a probe of that length has been answered.
func (p *Path) leaveHole() {
	if !p.hole.found {
		return
	}
	p.hole.found, p.hole.over = false, p.c.a.Now
	p.UseLong()
	p.c.a.log.Info("the path carries long frames again", "local", p.c.Local(), "remote", p.c.Remote)
}
