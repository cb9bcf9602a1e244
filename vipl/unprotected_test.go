package vipl_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// bareLink is a link that nothing protects.
type bareLink struct{ transport.Link }

func (l bareLink) Info() transport.Info {
	info := l.Link.Info()
	info.Unprotected = true
	return info
}

// TestUnprotectedEnd: where nothing protects the link of one side, messages pass both
// ways, and the frames of either side have a CRC over all of them. The side whose link
// is protected learns it from the handshake.
func TestUnprotectedEnd(t *testing.T) {
	for side := range 2 {
		for _, level := range levels {
			t.Run(fmt.Sprint(level, "/", side), func(t *testing.T) {
				d := &duo{t: t}
				d.bare[side] = true
				attr := &vipl.Attributes{Reliability: level}
				d.set(attr, attr)
				vis := [2]*vipl.VI{d.a, d.b}
				for i, to := range vis {
					in := d.post(to, 100)
					d.links[1-i].onSend = func(frame []byte) {
						var h ethertype.Header
						if _, err := h.Parse(frame); err != nil || h.Flags&ethertype.FlagWholeCRC == 0 {
							t.Errorf("side %d sent %s (%v)", 1-i, framing.Dump(frame), err)
						}
					}
					d.send(vis[1-i], 100)
					d.run()
					got, err := to.RecvDone()
					d.took(got, err, in, vipl.StatusOpReceive)
				}
				if there, here := vis[1-side].RemoteAttributes().WholeCRC, vis[side].RemoteAttributes().WholeCRC; !there || here {
					t.Errorf("the protected side knows of its peer: %t; the other: %t", there, here)
				}
			})
		}
	}
}
