package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
)

// A path that has carried long frames may stop to: somebody puts a firewall in between,
// or switches offloads off. Long frames then vanish while others pass, which is a black
// hole (RFC 8899, section 4.3). The sender finds out when it sends long frames again
// and again, hears the peer, and none of them is acknowledged. Then it falls back to
// frames of the MTU. Long frames under way have numbers, and so they cannot be cut
// anew: they go in pieces; see reassembly. From time to time, ever more rarely, it asks
// by a probe whether the path carries long frames again.

// BlackHole is what a connection knows of how long frames fare. The zero BlackHole knows
// nothing.
type BlackHole struct {
	losses   int           // times that long frames have gone again while none was acknowledged, and the peer was heard
	seq      ethertype.Seq // the first of them
	Mark     uint32        // just before that, in the order of transmissions
	since    int64         // when the first went again
	heard    int64         // when the peer had been heard, the last time
	Found    bool          // no long frames
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

// RecordLoss records that the long frame with number seq goes again at now. una is the oldest
// number that is not acknowledged, heard is when the peer was heard last, and mark is just
// before the frame went. passed says whether a long one that was sent since p.mark has been
// acknowledged. It reports whether the path does not carry long frames any more.
func (p *BlackHole) RecordLoss(now int64, seq, una ethertype.Seq, heard int64, mark uint32, passed bool) bool {
	switch {
	case p.losses == 0 || p.seq.Less(una) || passed:
		p.losses, p.seq, p.Mark, p.since, p.heard = 1, seq, mark, now, heard
	case p.heard != heard:
		p.losses, p.heard = p.losses+1, heard
	}
	return p.losses >= holeLosses && now-p.since >= holeTime
}

// Enter notes that there are no long frames any more. A path on which they came and went
// is asked the more rarely.
func (p *BlackHole) Enter(now int64) {
	if p.interval == 0 || now-p.over > 4*p.interval {
		p.interval = holeAgain
	}
	p.losses, p.Found, p.next = 0, true, now+p.interval
}

// Leave notes that there are long frames again.
func (p *BlackHole) Leave(now int64) { p.Found, p.over = false, now }

// Ask reports whether it is time to ask the path.
func (p *BlackHole) Ask(now int64) bool {
	if !p.Found || now < p.next {
		return false
	}
	p.interval = min(2*p.interval, holeMax)
	p.next = now + p.interval
	return true
}
