package vipl

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
)

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

// mtuDetail names both sides of a path that does not carry full-size frames.
func (v *VI) mtuDetail() string {
	n, size := v.nic, v.pathData+ethertype.BaseSize
	return fmt.Sprintf(
		"frames of MTU %d do not pass although short ones do: interface %s here (%v) has MTU %d, the peer's (%v) has %d, something between them less; "+
			"lower both: ip link set dev %s mtu 1500",
		size, n.info.Interface, n.info.MAC, n.mtu, v.remote.MAC, v.remoteMTU, n.info.Interface)
}

// pairsPerTry is how many pairs of probes go with a frame that is sent again by timer.
// Time-outs are up to a second apart.
const pairsPerTry = 2
