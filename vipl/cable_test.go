package vipl_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// long is the size of messages of many packets.
const long = 1 << 20

// exchange sends a long message and waits for one, so many times; an end that answers does
// it the other way round.
func exchange(n *vipl.NIC, v *vipl.VI, times int, answers bool) error {
	buf := make([]byte, long)
	h, err := n.RegisterMem(buf, nil)
	if err != nil {
		return err
	}
	sent := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
	for range times {
		for _, sends := range []bool{!answers, answers} {
			if !sends {
				d, err := v.RecvWait(bg)
				if err == nil {
					err = v.PostRecv(d)
				}
				if err != nil {
					return err
				}
				continue
			}
			if err := v.PostSend(sent); err != nil {
				return err
			}
			if _, err := v.SendWait(bg); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready makes a VI whose receives of long messages are posted.
func ready(n *vipl.NIC) (*vipl.VI, error) {
	v, err := n.CreateVI(&vipl.Attributes{Reliability: reliableLevels[0]}, nil, nil)
	if err != nil {
		return nil, err
	}
	for range 2 {
		buf := make([]byte, long)
		h, err := n.RegisterMem(buf, nil)
		if err == nil {
			err = v.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}})
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// pingPong exchanges long messages over two links of a world, and returns the virtual time
// that they take, and how often a frame was sent again.
func pingPong(w *world, links [2]transport.Link, times int) (took time.Duration, again uint64, err error) {
	w.nodeOn(links[0], "server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		v, err := ready(n)
		if err == nil {
			err = r.Accept(bg, v)
		}
		if err == nil {
			err = exchange(n, v, times, true)
		}
		again += v.Snapshot().Retransmits
		return err
	})
	w.nodeOn(links[1], "client", nil, func(n *vipl.NIC) error {
		v, err := ready(n)
		if err == nil {
			err = v.Connect(bg, ethertype.Addr{MAC: links[0].Info().MAC, Port: service}, nil)
		}
		if err != nil {
			return err
		}
		began := w.Now()
		err = exchange(n, v, times, false)
		took = time.Duration(w.Now() - began)
		again += v.Snapshot().Retransmits
		return err
	})
	return took, again, w.run()
}

// TestLongOverCable: long messages over a live cable of the emulated Myrinet take as long as
// over the link that the cable is on: nothing on the way waits for credit, for a frame that is
// missing, or for a timer, and nothing is sent again.
func TestLongOverCable(t *testing.T) {
	const times, mtu = 10, 30 << 10
	for _, delay := range []time.Duration{time.Microsecond, 20 * time.Microsecond} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			var took [2]time.Duration
			for i, cabled := range []bool{false, true} {
				w := newWorld(sim.Options{Seed: 3, MTU: mtu + plain.Overhead, Bandwidth: 40e9, Delay: delay})
				var links [2]transport.Link
				for i := range links {
					if !cabled {
						links[i] = w.StationWith(sim.StationOptions{Ports: transport.PortRange{Lo: 1024, Hi: 2047}, MTU: mtu})
						continue
					}
					end := w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: myrinet.CablePorts})
					cfg := plain.Config{MTU: mtu, Routes: []myrinet.HostRoute{{To: ethertype.Broadcast}}}
					var err error
					if links[i], err = plain.Join(end, &cfg, myrinet.LiveOptions{Seed: uint64(i + 1)}); err != nil {
						t.Fatal(err)
					}
				}
				var again uint64
				var err error
				if took[i], again, err = pingPong(w, links, times); err != nil || again > 0 {
					t.Fatalf("%d frames were sent again, %v", again, err)
				}
				for i := range links {
					if card, ok := links[i].(interface{ Snapshot() plain.Snapshot }); ok {
						s := card.Snapshot()
						f := s.Cable.Frames
						if f.Starved+f.Full+f.FramesLost+f.NoRoom+s.Link.TxFull+s.Link.RxDrops > 0 {
							t.Errorf("end %d has waited: %+v, %+v", i, f, s.Link)
						}
					}
				}
			}
			if took[1] > took[0]+took[0]/50 {
				t.Errorf("%d messages each way take %v over the cable, %v without it", times, took[1], took[0])
			}
		})
	}
}
