package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLateAcknowledgement: a message that comes alone is handed over before the
// acknowledgement that came with it is processed; the send that it completes
// is nevertheless found complete by every call that asks.
func TestLateAcknowledgement(t *testing.T) {
	ask := map[string]func(v *vipl.VI) error{
		"SendDone": func(v *vipl.VI) error { _, err := v.SendDone(); return err },
		"SendWait": func(v *vipl.VI) error { _, err := v.SendWait(bg); return err },
		"Snapshot": func(v *vipl.VI) error {
			if n := v.Snapshot().SendsDone; n != 1 {
				t.Errorf("Snapshot: %d sends done, want 1", n)
			}
			return nil
		},
		"Disconnect": func(v *vipl.VI) error {
			if err := v.Disconnect(); err != nil {
				return err
			}
			_, err := v.SendDone() // completed, not flushed
			return err
		},
	}
	for name, call := range ask {
		t.Run(name, func(t *testing.T) {
			x, y := memVIs(t, 1500, reliability.ReliableDelivery)
			xin, _ := newBuffers(x.NIC(), 1, 64)
			yin, _ := newBuffers(y.NIC(), 1, 64)
			out, _ := newBuffers(x.NIC(), 1, 64)
			back, _ := newBuffers(y.NIC(), 1, 64)
			x.PostRecv(&xin.descs[0])
			y.PostRecv(&yin.descs[0])
			if err := x.PostSend(&out.descs[0]); err != nil {
				t.Fatal(err)
			}
			if _, err := y.RecvDone(); err != nil {
				t.Fatal(err)
			}
			if err := y.PostSend(&back.descs[0]); err != nil { // carries the acknowledgement
				t.Fatal(err)
			}
			if _, err := x.RecvDone(); err != nil {
				t.Fatal(err)
			}
			if err := call(x); err != nil {
				t.Error(err)
			}
		})
	}
}
