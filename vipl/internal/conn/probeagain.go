package conn

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// sendPair sends a pair of probes.
func (p *Path) sendPair(t *pathTest) {
	t.pairs++
	p.SendProbe(ethertype.KindProbe, p.Data)
	p.SendProbe(ethertype.KindProbe, 0)
}

// probeAgain is called when what the connection has sent is not acknowledged although it has been
// sent several times. It asks the peer whether the path still carries full-size frames,
// and ends the connection, and returns false, when it does not.
func (p *Path) probeAgain(tries int) bool {
	t := &p.test
	if tries == triesInvain+1 {
		*t = pathTest{}
	}
	if !t.narrow(PathCertain) {
		for range pairsPerTry {
			p.sendPair(t)
		}
		return true
	}
	p.c.SendDisconnect(reasonMTU)
	p.c.EnterError(code.ErrInvalidMTU, p.MTUDetail(), reasonMTU)
	p.c.a.Stats.Failures++
	return false
}

// MTUDetail names both sides of a path that does not carry full-size frames.
func (p *Path) MTUDetail() string {
	a, size := p.c.a, p.Data+ethertype.BaseSize
	return fmt.Sprintf(
		"frames of MTU %d do not pass although short ones do: interface %s here (%v) has MTU %d, the peer's (%v) has %d, something between them less; "+
			"lower both: ip link set dev %s mtu 1500",
		size, a.info.Interface, a.info.MAC, a.MTU, p.c.Remote.MAC, p.remoteMTU, a.info.Interface)
}

// pairsPerTry is how many pairs of probes go with a frame that is sent again by timer.
// Time-outs are up to a second apart.
const pairsPerTry = 2
