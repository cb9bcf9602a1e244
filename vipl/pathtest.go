package vipl

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
)

// pathTest tells a path that does not carry frames as long as the MTU says from one
// that loses many frames of any length. Probes of full size and short ones go in pairs.
// A path that loses both alike answers either with the same chance, whatever it is. So
// each answer to a short probe, while none of full size has come, is one throw of a
// coin: only a path that does not carry the long ones lets it fall on the same side
// forever.
type pathTest struct {
	pairs  int  // of probes sent
	short  int  // short ones that were answered
	passed bool // one of full size was
}

// How sure the verdict is: the chance that a path which loses both alike looks so.
const (
	pathCertain = 1e-7 // to end an attempt to connect, or a connection
	pathLikely  = 1e-5 // to say so when the time for it is over
)

// narrow reports whether full-size frames do not pass although short ones do: whether
// the chance of what was seen is at most odds if both pass alike. That is the chance
// that short of 2*pairs probes, drawn by lot, are all among the short ones.
func (t *pathTest) narrow(odds float64) bool {
	if t.passed {
		return false
	}
	chance, short := 1.0, min(t.short, t.pairs) // an answer may be copied on the way
	for i := range short {
		chance *= float64(t.pairs-i) / float64(2*t.pairs-i)
	}
	return chance <= odds
}

// answered notes the answer to a probe.
func (t *pathTest) answered(full bool) {
	if full {
		t.passed = true
		return
	}
	t.short++
}

// sendPair sends a pair of probes.
func (v *VI) sendPair(t *pathTest) {
	t.pairs++
	v.sendProbe(ethertype.KindProbe, v.pathData)
	v.sendProbe(ethertype.KindProbe, 0)
}

// doubtPath is called when what v has sent is not acknowledged although it has been
// sent several times. It asks the peer whether the path still carries full-size frames,
// and ends the connection, and returns false, when it does not.
func (v *VI) doubtPath(tries int) bool {
	t := &v.path
	if tries == triesInvain+1 {
		*t = pathTest{}
	}
	if !t.narrow(pathCertain) {
		for range pairsPerTry {
			v.sendPair(t)
		}
		return true
	}
	v.sendDisconnect(reasonMTU)
	v.enterError(ErrInvalidMTU, v.mtuDetail(), reasonMTU)
	v.nic.stats.Failures++
	return false
}

// pairsPerTry is how many pairs of probes go with a frame that is sent again by timer.
// Time-outs are up to a second apart.
const pairsPerTry = 2

// mtuDetail names both sides of a path that does not carry full-size frames.
func (v *VI) mtuDetail() string {
	n, size := v.nic, v.pathData+ethertype.BaseSize
	return fmt.Sprintf(
		"frames of MTU %d do not pass although short ones do: interface %s here (%v) has MTU %d, the peer's (%v) has %d, something between them less; "+
			"lower both: ip link set dev %s mtu 1500",
		size, n.info.Interface, n.info.MAC, n.mtu, v.remote.MAC, v.remoteMTU, n.info.Interface)
}
