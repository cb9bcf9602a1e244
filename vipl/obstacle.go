package vipl

import "github.com/bobnet-go/bobnet/transport/iface"

// Obstacle says what is known of the NIC's interface that keeps its frames from
// others, and the remedy: that it is off or has no carrier, that a bridge takes its
// frames, or that a macvlan and the interface below it are kept apart. It is a part
// of a sentence for the report that somebody does not answer; "" if nothing is
// known, and for links that the NIC was given with a clock of their own. Open is
// called in the network namespace that it looks at.
func (n *NIC) Obstacle() string {
	if n.m.Info.Virtual {
		return ""
	}
	return iface.Obstacle(n.m.Info.Interface)
}
