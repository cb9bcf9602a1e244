package vipl_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestBlame: of messages that are under way together, one is too long or finds no
// receive. That one is blamed at the sender, those before it have been delivered
// and say so, those behind it are flushed; whether they share a frame or not, and
// whether the Disconnect arrives or has to be said again.
func TestBlame(t *testing.T) {
	const count, wrong = 8, 5
	for _, level := range reliableLevels {
		for _, cause := range []string{"TooLong", "NoReceive"} {
			for _, packed := range []bool{true, false} {
				for _, told := range []string{"heard", "error", "left"} { // what answers if the Disconnect is lost
					t.Run(fmt.Sprintf("%v/%s/packed=%v/%s", level, cause, packed, told), func(t *testing.T) {
						d := newDuo(t, &vipl.Attributes{Reliability: level}, &vipl.Attributes{Reliability: level})
						receives := make([]*vipl.Descriptor, count)
						for i := range receives {
							if cause == "TooLong" || i < wrong {
								receives[i] = d.post(d.b, 100)
							}
						}
						var sends []*vipl.Descriptor
						for i := range count {
							size := i + 1
							if i == wrong && cause == "TooLong" {
								size = 101
							}
							sends = append(sends, d.send(d.a, size))
							if !packed {
								d.a.Flush()
							}
						}
						if told != "heard" {
							loseDisconnect(d, told == "left")
						}
						d.run()
						checkBlame(d, sends, wrong, level)
						for i, r := range receives {
							if i < wrong {
								got, err := d.b.RecvDone()
								d.took(got, err, r, vipl.StatusOpReceive)
							}
						}
					})
				}
			}
		}
	}
}

// loseDisconnect loses the frame in which b says that the connection is over; if it
// has left besides, whatever it says then too.
func loseDisconnect(d *duo, left bool) {
	d.t.Helper()
	wire := d.links[0] // to a
	for i := 0; d.b.State() == vipl.StateConnected && i < 10; i++ {
		d.a.Flush()
		d.na.Poll()
		d.nb.Poll()
	}
	if d.b.State() != vipl.StateError {
		d.t.Fatal(d.b.State())
	}
	wire.tail-- // the Disconnect, which comes last
	if left {
		tail := wire.tail
		d.b.Disconnect()
		wire.tail = tail
	}
	for i := 0; d.a.State() == vipl.StateConnected && i < 100; i++ {
		d.run()
	}
}

func checkBlame(d *duo, sends []*vipl.Descriptor, wrong int, level reliability.Level) {
	d.t.Helper()
	for i, s := range sends {
		var status vipl.Status
		switch {
		case i == wrong:
			status = blamed(level)
		case i > wrong:
			status = vipl.StatusFlushed
		}
		got, err := d.a.SendDone()
		d.took(got, err, s, status)
	}
}
