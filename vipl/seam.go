package vipl

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/internal/seam/hook"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

func init() {
	hook.EngineOf = func(nic any) *progress.Engine { return &nic.(*NIC).eng }
	hook.LinkOf = func(nic any) transport.Link { return nic.(*NIC).m.Link }
	hook.Announce, hook.Await = announce, await
	hook.QueueOf = func(cq any) any { return queue{cq.(*CQ)} }
	hook.PostLate = func(vi, d any) error { return vi.(*VI).postSend(d.(*Descriptor), conn.Late) }
	hook.PostMore = func(vi, d any) error { return vi.(*VI).postSend(d.(*Descriptor), conn.More) }
	hook.Key, hook.Faults, hook.Timeout = keyWanted, faultsWanted, timeoutWanted
}

// announce implements seam.Announce. A NIC with a key announces nothing: a broadcast can be recorded and replayed to a
// station that has not received it, even in a later run. So nobody may act on its contents (package seal).
func announce(nic any, name string) {
	n := nic.(*NIC)
	if _, sealed := transport.As[*seal.Link](n.m.Link); sealed {
		return
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	n.m.Dir.Announce(name)
}

// await implements seam.Await.
func await(ctx context.Context, nic any, name string, quiet time.Duration) (ethertype.Addr, error) {
	n := nic.(*NIC)
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.Await(ctx, name, quiet, DefaultConnectTimeout)
}
