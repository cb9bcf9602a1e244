package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Ethernet has the times that two machines of the Bobnet paper take in virtual time. A cable joins
// the machines. Other computation takes no time.
type Ethernet struct {
	Name      string
	Bandwidth float64       // of the cable, bits per second
	Bus       float64       // of the bus from which the device fetches frames, bytes per second; 0 means faster than the cable
	Routine   time.Duration // of the kernel, for the shortest frame: once to send it, once to receive it
	PerFull   time.Duration // additional time of the routine for a frame of the MTU
	Devices   time.Duration // time of a shortest frame in both devices and on the cable
	Turn      time.Duration // of the program, from the end of a receive to the beginning of the send after it
}

// Bytes on the cable in addition to a frame's own, and the shortest frame.
const (
	cableOverhead = 8 + 4 + 12 // preamble, check sequence, gap
	shortestFrame = 60
	fullFrame     = 1514
)

// routine returns the kernel's time for a frame of n bytes, in each direction.
func (e *Ethernet) routine(n int) time.Duration {
	more := float64(max(n, shortestFrame)-shortestFrame) / (fullFrame - shortestFrame)
	return e.Routine + time.Duration(more*float64(e.PerFull))
}

// line returns how long a frame of n bytes occupies the cable or the bus, whichever is slower.
func (e *Ethernet) line(n int) time.Duration {
	n = max(n, shortestFrame)
	seconds := float64(n+cableOverhead) * 8 / e.Bandwidth
	if e.Bus > 0 {
		seconds = max(seconds, float64(n)/e.Bus)
	}
	return time.Duration(seconds * 1e9)
}

// world returns a segment whose delay for a frame is the part of Devices that is not its time on
// the line.
func (e *Ethernet) world() *sim.World {
	return sim.New(sim.Options{Seed: 1, Delay: max(e.Devices-e.line(shortestFrame), 1), Limit: time.Hour})
}

// machine is one of the two machines: a station whose kernel and device take time. One process uses
// the machine, and is its processor: the process sleeps while the kernel works.
type machine struct {
	*sim.Station
	w    *sim.World
	e    *Ethernet
	free int64 // time at which the line becomes free
}

func (e *Ethernet) machine(w *sim.World, name string) *machine {
	return &machine{Station: w.Station(name), w: w, e: e}
}

// Send passes each frame through the kernel, and then over the line.
func (m *machine) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		n := frames[i].Len()
		if err := m.w.Sleep(m.e.routine(n)); err != nil {
			return i, err
		}
		m.free = max(m.free, m.w.Now()) + int64(m.e.line(n))
		copied := []transport.Frame{{Head: frames[i].AppendTo(nil)}}
		m.w.At(m.free, func() { m.Station.Send(copied) }) //nolint:errcheck // a machine that was closed sends nothing more
	}
	return len(frames), nil
}

// Recv returns one frame at a time, after the frame has passed the kernel.
func (m *machine) Recv(views [][]byte) (int, error) {
	n, err := m.Station.Recv(views[:min(len(views), 1)])
	if n > 0 {
		err = m.w.Sleep(m.e.routine(len(views[0])))
	}
	return n, err
}
