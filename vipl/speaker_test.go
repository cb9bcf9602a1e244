package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestOneAnswer: of several NICs on one interface one answers an echo and an inquiry to any NIC there,
// and when that one has gone another one does.
func TestOneAnswer(t *testing.T) {
	p := vethtest.New(t, 1500)
	open := func(side int) (n *vipl.NIC) {
		err := p.In(side, func() (err error) {
			n, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Driver: "packet"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	var many []*vipl.NIC
	for range 6 {
		many = append(many, open(0))
	}
	asker := open(1)
	all := ethertype.Addr{MAC: many[0].Addr().MAC}
	for range 2 {
		for tries := 0; ; tries++ { // the one that has spoken may have closed a moment ago
			if _, err := asker.Echo(bg, all, 8); err == nil {
				break
			} else if tries == 10 {
				t.Fatal(err)
			}
		}
		before := make([]uint64, len(many))
		for i, n := range many {
			before[i] = n.Snapshot().TxFrames
		}
		if _, err := asker.Echo(bg, all, 8); err != nil {
			t.Fatal(err)
		}
		if _, err := asker.HostByAddr(bg, all); err != nil {
			t.Fatal(err)
		}
		for _, n := range many { // it has received the other questions before this one
			if _, err := asker.Echo(bg, n.Addr(), 8); err != nil {
				t.Fatal(err)
			}
		}
		speaker := -1
		for i, n := range many {
			switch n.Snapshot().TxFrames - before[i] {
			case 1:
			case 3:
				if speaker >= 0 {
					t.Fatal("two NICs have answered")
				}
				speaker = i
			default:
				t.Fatalf("NIC %d has answered one question in two", i)
			}
		}
		if speaker < 0 {
			t.Fatal("no NIC has answered")
		}
		if err := many[speaker].Close(); err != nil {
			t.Fatal(err)
		}
		many = append(many[:speaker], many[speaker+1:]...)
	}
}
