package vipl

import (
	"errors"

	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
)

// Obstacle examines the NIC's interface and returns what prevents its frames from reaching others, with the
// remedy. These are the obstacles that it detects: this process cannot share memory with other processes of
// this host; the interface is gone, down or without carrier; a bridge takes the interface's frames; a macvlan
// and its parent interface are isolated from each other. The result is a phrase that completes a report of a
// peer that does not answer. It is "" if no obstacle is known, and for links with a clock of their own.
// Obstacle detects bridges and macvlans only in the network namespace of the calling thread. Any goroutine may
// call it.
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
