package vipl

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

// longPath is what a connection knows of how long frames fare. The zero longPath knows
// nothing.
type longPath struct {
	lost     int           // times that long frames have gone again while none was acknowledged, and the peer was heard
	seq      ethertype.Seq // the first of them
	mark     uint32        // just before that, in the order of transmissions
	since    int64         // when the first went again
	heard    int64         // when the peer had been heard, the last time
	fallen   bool          // no long frames
	risen    int64         // when that was over the last time
	next     int64         // when to ask whether it is over
	interval int64
}

const (
	holeLosses = 4               // times that mean a black hole,
	holeTime   = 200_000_000     // ns, if it has lasted so long: a ring that runs over loses long frames, too, and not short ones
	holeAgain  = 500_000_000     // ns until the path is asked again first
	holeMax    = 300_000_000_000 // and at the most
)

// lose takes note that a long frame goes again at now, of which seq is the number, una the
// oldest that is not acknowledged, and heard when the peer was heard last; mark is just before it went. passed says
// whether a long one that was sent since p.mark has been acknowledged. It reports whether
// the path does not carry them any more.
func (p *longPath) lose(now int64, seq, una ethertype.Seq, heard int64, mark uint32, passed bool) bool {
	switch {
	case p.lost == 0 || p.seq.Less(una) || passed:
		p.lost, p.seq, p.mark, p.since, p.heard = 1, seq, mark, now, heard
	case p.heard != heard:
		p.lost, p.heard = p.lost+1, heard
	}
	return p.lost >= holeLosses && now-p.since >= holeTime
}

// fall notes that there are no long frames any more. A path on which they came and went
// is asked the more rarely.
func (p *longPath) fall(now int64) {
	if p.interval == 0 || now-p.risen > 4*p.interval {
		p.interval = holeAgain
	}
	p.lost, p.fallen, p.next = 0, true, now+p.interval
}

// ask reports whether it is time to ask the path.
func (p *longPath) ask(now int64) bool {
	if !p.fallen || now < p.next {
		return false
	}
	p.interval = min(2*p.interval, holeMax)
	p.next = now + p.interval
	return true
}

// resendLong sends a long frame again: in pieces if it must not be long any more.
// It reports false when the link takes no more now.
func (v *VI) resendLong(f *reliability.Sent, seq ethertype.Seq, flags ethertype.Flags) bool {
	n, p := v.nic, &v.hole
	if !p.fallen {
		if !p.lose(n.now, seq, v.tx.Una(), v.heard, v.tx.Mark()-1, v.tx.LongerAcked(p.mark, uint32(v.pathData))) {
			took := v.build(f, seq, flags)
			v.sendAck(ethertype.FlagAckNow) // which is short: does the peer hear us?
			return took
		}
		p.fall(n.now)
		v.flags &^= ethertype.FlagTakesLong
		if v.proven = v.cursor.offset > 0 && v.sq.at(v.cursor.next).Op == OpRDMAWrite; !v.proven {
			v.maxData = v.pathData
		}
		n.log.Info("the path carries long frames no more", "local", v.Local(), "remote", v.remote)
	}
	return v.sendPieces(f, seq, flags)
}

// askLong asks the peer, if it is time, whether the path carries long frames again.
func (v *VI) askLong() {
	if v.hole.ask(v.nic.now) {
		v.sendProbe(ethertype.KindProbe, v.nic.long.size)
	}
}

// rise goes back to long frames, because a probe of that length has been answered.
func (v *VI) rise() {
	if !v.hole.fallen {
		return
	}
	v.hole.fallen, v.hole.risen = false, v.nic.now
	v.widen()
	v.nic.log.Info("the path carries long frames again", "local", v.Local(), "remote", v.remote)
}
