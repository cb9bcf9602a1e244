package optional

import (
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// Lengthener is implemented by wrappers that make frames longer.
type Lengthener interface {
	transport.Wrapper

	// Overhead returns how many bytes they add.
	Overhead() int
}

// LongMTU returns the maximum size of a long frame of link after the Ethernet header: 65,461 bytes,
// minus the overhead of wrappers.
func LongMTU(link transport.Link) int {
	mtu := framing.LongMTU
	for link != nil {
		if l, ok := link.(Lengthener); ok {
			mtu -= l.Overhead()
		}
		w, ok := link.(transport.Wrapper)
		if !ok {
			break
		}
		link = w.Unwrap()
	}
	return mtu
}
