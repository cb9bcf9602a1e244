package vipl_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestReadWaitingTakenBack takes back the right to read a region while the whole
// answer waits for a link that is full: it is not sent.
func TestReadWaitingTakenBack(t *testing.T) {
	for name, take := range map[string]func(d *duo, h vipl.MemHandle) error{
		"DeregisterMem":    func(d *duo, h vipl.MemHandle) error { return d.nb.DeregisterMem(h) },
		"SetMemAttributes": func(d *duo, h vipl.MemHandle) error { return d.nb.SetMemAttributes(h, nil) },
		"SetAttributes": func(d *duo, h vipl.MemHandle) error {
			a := d.b.Query().Attributes
			a.EnableRDMARead = false
			return d.b.SetAttributes(&a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := readable(t, reliability.ReliableDelivery, 0)
			buf, h, err := d.nb.AllocMem(1000, &vipl.MemAttributes{EnableRDMARead: true})
			if err != nil {
				t.Fatal(err)
			}
			d.run()
			r := d.read(d.a, 1000, vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h})
			l := d.links[0]
			room := l.tail
			l.tail = l.head + memSlots
			d.nb.Poll() // takes the request
			d.nb.Poll()
			if err := take(d, h); err != nil {
				t.Fatal(err)
			}
			l.tail = room
			*l.clock += int64(time.Second) // the answer counts as lost
			d.run()
			x, err := d.a.SendDone()
			d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
			d.ended(vipl.ErrRDMA)
		})
	}
}
