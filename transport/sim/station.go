package sim

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// Station is a host's interface on the segment. It is a transport.Link with one restriction: only
// processes of its world may call its methods, see World.
type Station struct {
	world  *World
	id     int
	name   string
	mac    ethertype.MAC
	opts   StationOptions
	gone   error // the error of all calls; nil while the station lives
	killed bool
	woken  bool
	waiter *proc
	stats  transport.Stats

	uplink line
	inward track // to the switch
	rx     fifo.Queue[*frame]
	viewed []*frame // views of the last Recv
	rest   int      // bytes that the last view lacks

	takesLong    bool // the user accepts long frames
	receivesLong bool // and the station receives them
	joiner       *framing.Joiner
	joined       bool // the last long frame arrived in segments

	output  line  // of the switch, towards this station
	outward track // to this station
	held    []held
	bad     bool // state of the burst model
	island  int
	cut     map[*Station]bool
}

// Station adds a station with the world's options. The name is for display and may be "".
func (w *World) Station(name string) *Station {
	return w.StationWith(StationOptions{Name: name})
}

// StationWith adds a station. One with the MAC of a living station is that host after a restart:
// the old station is killed.
func (w *World) StationWith(opts StationOptions) *Station {
	w.created++
	setDefault(&opts.Name, fmt.Sprintf("s%d", w.created))
	id := w.created
	setDefault(&opts.MAC, ethertype.MAC{0x02, 0, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)})
	opts = opts.withDefaults(&w.opts)
	if old := w.byMAC[key(opts.MAC)]; old != nil {
		w.Kill(old)
	}
	s := &Station{
		world:  w,
		id:     id,
		name:   opts.Name,
		mac:    opts.MAC,
		opts:   opts,
		uplink: line{bandwidth: opts.Bandwidth, limit: opts.TxSlots},
		output: line{bandwidth: opts.Bandwidth, limit: opts.Queue},
	}
	s.inward.land = w.route
	s.outward.land = w.deliver
	w.stations = append(w.stations, s)
	w.byMAC[key(s.mac)] = s
	return s
}

// String returns the station's name.
func (s *Station) String() string { return s.name }

// MAC returns the station's address.
func (s *Station) MAC() ethertype.MAC { return s.mac }

// Send queues copies of frames on the uplink. See transport.Link.
func (s *Station) Send(frames []transport.Frame) (int, error) {
	if s.gone != nil {
		return 0, s.gone
	}
	frames = frames[:min(len(frames), transport.MaxBatch)]
	if len(frames) > 0 {
		s.stats.TxCalls++
	}
	for i := range frames {
		f := &frames[i]
		size := f.Len()
		if size > s.limit() {
			return i, fmt.Errorf("%w: %d bytes do not fit MTU %d and %d bytes of Ethernet header",
				transport.ErrFrameSize, size, s.limit()-ethertype.EthernetSize, ethertype.EthernetSize)
		}
		if len(f.Body) > transport.MaxBody {
			return i, fmt.Errorf("%w: %d parts, a frame may have %d", transport.ErrFrameSize, len(f.Body), transport.MaxBody)
		}
		if size < ethertype.EthernetSize {
			s.stats.TxDrops++
			continue
		}
		leaves, ok := s.uplink.admit(s.world.now, size)
		if !ok {
			s.stats.TxFull++
			return i, nil
		}
		s.stats.TxFrames++
		s.stats.TxBytes += uint64(size)
		s.world.leave(s, s.world.pool.gather(f), leaves)
	}
	return len(frames), nil
}

// Recv returns frames from the receive queue. See transport.Link. Views are overwritten when they
// become invalid, so that late reads are detected.
func (s *Station) Recv(views [][]byte) (int, error) {
	s.releaseViews()
	if s.gone != nil {
		return 0, s.gone
	}
	n := 0
	for most := min(len(views), s.rx.Len(), transport.MaxBatch); n < most && s.rest == 0; n++ {
		f := s.rx.Pop()
		s.viewed = append(s.viewed, f)
		views[n] = f.data
		if s.long(len(f.data)) && len(f.data) > transport.LongBegin {
			views[n], s.rest, s.joined = f.data[:transport.LongBegin], len(f.data)-transport.LongBegin, f.joined
		}
		s.stats.RxBytes += uint64(len(f.data))
	}
	if n > 0 {
		s.stats.RxFrames += uint64(n)
		s.stats.RxCalls++
	}
	return n, nil
}

func (s *Station) releaseViews() {
	for i, f := range s.viewed {
		s.world.pool.release(f)
		s.viewed[i] = nil
	}
	s.viewed, s.rest = s.viewed[:0], 0
}

// Ready reports whether the receive queue holds a frame.
func (s *Station) Ready() bool { return s.rx.Len() > 0 }

// Wait blocks the process until a frame arrives, Wake is called or the world's clock reaches until.
// If there is no frame and until has passed, it still lets the other processes run. Called without
// Run, it lets the world continue for that long, and may return the error of Run.
func (s *Station) Wait(until int64) error {
	if s.gone != nil {
		return s.gone
	}
	if s.rx.Len() == 0 && !s.woken {
		s.stats.Waits++
		if err := s.world.block(s, until); err != nil {
			return err
		}
	}
	s.woken = false
	return s.gone
}

// Wake ends the current or the next Wait.
func (s *Station) Wake() {
	s.stats.Wakes++
	s.wake()
	s.woken = true
}

func (s *Station) wake() {
	if s.waiter != nil {
		s.world.unblock(s.waiter)
	}
}

// Now returns the world's clock.
func (s *Station) Now() int64 { return s.world.now }

// Info describes the station's link.
func (s *Station) Info() transport.Info {
	return transport.Info{
		Driver:      "sim",
		Interface:   s.name,
		MAC:         s.mac,
		EtherType:   s.opts.EtherType,
		Ports:       s.opts.Ports,
		MTU:         s.opts.MTU,
		Slots:       s.opts.RxSlots,
		Unprotected: s.world.opts.Corrupt > 0,
		Virtual:     true,
	}
}

// Stats returns a snapshot of the counters.
func (s *Station) Stats() transport.Stats { return s.stats }

// Close removes the station from the segment. Frames that it has sent still arrive. Goroutines may
// close different stations at the same time if the world is not in use otherwise.
func (s *Station) Close() error {
	s.world.closing.Lock()
	defer s.world.closing.Unlock()
	s.remove(transport.ErrClosed)
	return nil
}
