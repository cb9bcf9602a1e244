package optional

import (
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// Lengthener is implemented by wrappers whose frames are longer on the link within.
type Lengthener interface {
	transport.Wrapper

	// Overhead returns by how many bytes.
	Overhead() int
}

// LongMTU returns the most that a long frame of link holds behind the Ethernet header:
// 65,461 bytes, less what wrappers add.
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
