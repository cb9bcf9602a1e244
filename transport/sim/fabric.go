package sim

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// leave sends a frame to the switch. Its last bit leaves the sender at the given time.
func (w *World) leave(from *Station, f *frame, at int64) {
	w.stats.Sent++
	at += int64(w.opts.Delay)
	if w.opts.Jitter > 0 {
		at += w.rng.Int64N(int64(w.opts.Jitter) + 1)
	}
	w.launch(&from.inward, at, passage{frame: f, from: from})
}

// key converts an address to a number, which is faster as a key of maps.
func key(b ethertype.MAC) uint64 {
	return uint64(b[0])<<40 | uint64(b[1])<<32 | uint64(b[2])<<24 | uint64(b[3])<<16 | uint64(b[4])<<8 | uint64(b[5])
}

// route forwards a frame to the station with its destination address, or to all stations but the
// sender.
func (w *World) route(p passage) {
	dst := ethertype.MAC(p.frame.data)
	switch to := w.byMAC[key(dst)]; {
	case p.from.killed:
		w.drop(p, &w.stats.Unrouted, "unrouted")
	case dst.IsGroup():
		w.flood(p)
	case to == nil || to == p.from:
		w.drop(p, &w.stats.Unrouted, "unrouted")
	default:
		w.stats.Copies++
		p.to = to
		w.forward(p)
	}
}

func (w *World) flood(p passage) {
	for _, to := range w.stations {
		if to != p.from {
			w.stats.Copies++
			p.frame.refs++
			w.forward(passage{p.frame, p.from, to})
		}
	}
	w.pool.release(p.frame)
}

// forward applies the partitions and the script to a passage.
func (w *World) forward(p passage) {
	switch {
	case p.from.apart(p.to):
		w.drop(p, &w.stats.Partitioned, "partitioned")
	case w.stopLong(p):
	default:
		w.pass(p)
	}
}

// pass applies the script, or the random faults alone.
func (w *World) pass(p passage) {
	if w.script != nil {
		w.runScript(p)
		return
	}
	w.disturb(p)
}

// queue puts p on the line to its station, or drops it if the switch's queue is full.
func (w *World) queue(p passage) {
	leaves, ok := p.to.output.admit(w.now, len(p.frame.data))
	switch {
	case !ok:
		w.drop(p, &w.stats.QueueFull, "queue full")
	case leaves == w.now:
		w.deliver(p)
	default:
		w.launch(&p.to.outward, leaves, p)
	}
}

// deliver hands the frame to its station. The station filters it like a real one: by address,
// EtherType, version and port.
func (w *World) deliver(p passage) {
	s := p.to
	switch {
	case s.gone != nil:
		w.drop(p, &w.stats.Gone, "receiver gone")
	case w.deliverSegment(p):
	case !s.wants(p.frame.data):
		s.stats.RxFiltered++
		w.drop(p, &w.stats.Filtered, "filtered")
	case s.rx.Len() >= s.opts.RxSlots:
		s.stats.RxDrops++
		w.drop(p, &w.stats.RxFull, "receive queue full")
	default:
		w.stats.Delivered++
		w.mix(p)
		w.log(p, "delivered")
		s.rx.Push(p.frame)
		s.wake()
	}
}

// wants reports whether the station's link accepts the frame.
func (s *Station) wants(f []byte) bool {
	if len(f) < framing.OuterSize {
		return false
	}
	port, ok := framing.Concerns(f, s.opts.EtherType, s.mac)
	return ok && (port == ethertype.PortAll || s.opts.Ports.Contains(port))
}

// drop ends a passage, counts the reason and logs it.
func (w *World) drop(p passage, reason *uint64, why string) {
	*reason++
	w.log(p, why)
	w.pool.release(p.frame)
}
