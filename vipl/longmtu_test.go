package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLongSmallerMTU: long frames are those that the link's MTU does not allow. Where
// the path's is smaller, because an interface's was made smaller under the NICs or was
// from the beginning, messages of lengths between both arrive like all others.
func TestLongSmallerMTU(t *testing.T) {
	for _, test := range []struct {
		name       string
		open, then [2]int // MTUs when the NICs are opened, and afterwards
	}{
		{"Both", [2]int{9000, 9000}, [2]int{600, 600}},
		{"First", [2]int{9000, 600}, [2]int{9000, 600}},
		{"Second", [2]int{600, 9000}, [2]int{600, 9000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := vethtest.New(t, 9000)
			var nics [2]*vipl.NIC
			for side := range nics {
				if err := p.SetMTU(side, test.open[side]); err != nil {
					t.Fatal(err)
				}
			}
			for side := range nics {
				nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name})
			}
			for side := range nics {
				if err := p.SetMTU(side, test.then[side]); err != nil {
					t.Fatal(err)
				}
			}
			for i, size := range []int{500, 700, 3000, 8900, 9100, 70_000} {
				a, b := join(t, nics, openTo(reliability.ReliableDelivery))
				there, back := newFlow(t, a, b, 4, size, uint64(i)), newFlow(t, b, a, 4, size, uint64(i))
				within(t, "messages", func() error { return all(there.send, there.receive, back.send, back.receive) })
			}
		})
	}
}
