package mplite

import "github.com/bobnet-go/bobnet/vipl"

// bell wakes the leader, which sleeps on the completion queue, when another
// goroutine has something for it. It is a VI that is never connected: what is
// posted on it completes at once, flushed, as VIA has it, and so puts an entry
// into the queue.
type bell struct {
	vi      *vipl.VI
	desc    vipl.Descriptor
	ringing bool
}

func (b *bell) init(nic *vipl.NIC, cq *vipl.CQ) (err error) {
	b.vi, err = nic.CreateVI(nil, cq, nil)
	return err
}

// ring rings unless a ring has not been heard yet. The entry carries no
// *peer as its VI's context, which says what it is.
func (b *bell) ring() {
	if !b.ringing {
		b.ringing = b.vi.PostSend(&b.desc) == nil
	}
}
