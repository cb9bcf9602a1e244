package conn

import (
	"github.com/bobnet-go/bobnet/ethertype"
)

// A path that has carried long frames may stop carrying them, because a firewall was inserted or an
// offload disabled. Long frames then vanish while others pass: a black hole (RFC 8899, section
// 4.3). The sender detects it when it retransmits long frames repeatedly, none of them is
// acknowledged, and the peer is alive. It then falls back to frames of the MTU. Long frames in
// flight keep their numbers, so they are sent in pieces; see reassembly. While it has long messages,
// the sender probes at growing intervals whether the path carries long frames again. It probes a path that
// has not yet answered in the same way.

// BlackHole records whether long frames get through on a connection. The zero BlackHole has no
// records.
type BlackHole struct {
	losses   int           // retransmissions of long frames while none was acknowledged and the peer was alive
	seq      ethertype.Seq // number of the first of these frames
	Mark     uint32        // transmission count just before that
	since    int64         // time of the first retransmission
	heard    int64         // time of the peer's last frame then
	Found    bool          // long frames do not pass
	over     int64         // when the last black hole ended
	next     int64         // when to probe next
	interval int64
}

const (
	holeLosses = 4               // retransmissions that indicate a black hole,
	holeTime   = 200_000_000     // ns, if it has lasted this long: an overflowing ring also loses long frames and not short ones
	holeFirst  = 5_000_000       // ns before a path that has never answered is probed again
	holeAgain  = 500_000_000     // ns before the first probe of one that has carried long frames
	holeMax    = 300_000_000_000 // and before later ones, at most
)

// RecordLoss records the retransmission of the long frame seq at now, and reports whether the path
// no longer carries long frames. una is the oldest unacknowledged number, heard the time of the
// peer's last frame, and mark the transmission count before the retransmission. passed reports
// whether a long frame sent since p.mark has been acknowledged.
func (p *BlackHole) RecordLoss(now int64, seq, una ethertype.Seq, heard int64, mark uint32, passed bool) bool {
	switch {
	case p.losses == 0 || p.seq.Less(una) || passed:
		p.losses, p.seq, p.Mark, p.since, p.heard = 1, seq, mark, now, heard
	case p.heard != heard:
		p.losses, p.heard = p.losses+1, heard
	}
	return p.losses >= holeLosses && now-p.since >= holeTime
}

// Enter records that long frames no longer pass. If the path repeatedly changes, it is probed less
// often.
func (p *BlackHole) Enter(now int64) {
	if p.interval < holeAgain || now-p.over > 4*p.interval {
		p.interval = holeAgain
	}
	p.losses, p.Found, p.next = 0, true, now+p.interval
}

// Leave records that long frames pass again.
func (p *BlackHole) Leave(now int64) { p.Found, p.over = false, now }

// Need records that the sender could use long frames. A path without records is probed at once.
func (p *BlackHole) Need(now int64) {
	if !p.Found {
		p.Found, p.interval, p.next = true, holeFirst/2, now
	}
}

// Due reports whether a probe is due.
func (p *BlackHole) Due(now int64) bool { return p.Found && now >= p.next }

// Wait records that the sender was not ready for the probe that is due.
func (p *BlackHole) Wait(now int64) { p.next = now + holeFirst }

// Ask reports whether a probe is due, and if so records that it is sent.
func (p *BlackHole) Ask(now int64) bool {
	if !p.Due(now) {
		return false
	}
	p.interval = min(2*p.interval, holeMax)
	p.next = now + p.interval
	return true
}
