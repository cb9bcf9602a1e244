package vipl

import (
	"errors"

	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
)

// Obstacle looks at the NIC's interface and returns what keeps its frames from others, and
// the remedy: that this process cannot share memory with others of this host, or that it is gone, is off or has no carrier, that a bridge takes its frames, or
// that a macvlan and the interface below it are kept apart. It is a part of a sentence for
// the report that a peer does not answer; "" if nothing is known, and for links that the NIC
// was given with a clock of their own. What concerns bridges and macvlans it finds only in
// the network namespace of the calling thread. Any goroutine may call it.
func (n *NIC) Obstacle() string {
	if n.m.Info.Virtual {
		return ""
	}
	n.eng.Lock()
	trouble := n.m.Trouble()
	n.eng.Unlock()
	if err := optional.ShareTrouble(n.m.Link); err != nil {
		return err.Error()
	}
	if errors.Is(trouble, transport.ErrGone) {
		return trouble.Error()
	}
	if text := iface.Obstacle(n.m.Info.Interface); text != "" || trouble == nil {
		return text
	}
	return trouble.Error()
}
