// Package wildhost adds a host to a simulated Myrinet whose card follows no protocol. The card
// sends invented packets on invented routes: to other hosts, in circles, and to ports without a
// cable. It accepts all arriving packets.
package wildhost

import (
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// The ports of the host and of its loop, which is a cable from the switch to itself. Other hosts
// have lower ports.
const (
	Port    = 4
	loopOut = 5
	loopIn  = 6
)

// longest is the maximum number of payload bytes in a packet: more than fit into the buffer of any
// card.
const longest = 20_000

// Host is a host that follows no protocol.
type Host struct {
	Hosts int // number of other hosts, at ports 0, 1 and so on

	// Forge returns a packet as the control programs of the other hosts send it, but with errors.
	Forge func(rng *rand.Rand) (typ uint16, payload []byte)

	// Heard, if not nil, is called with the payload of each complete packet. The payload is valid
	// until Heard returns.
	Heard func(payload []byte)

	// Struck is the number of packets that the host has sent.
	Struck int

	rng  *rand.Rand
	port *myrinet.Port
}

// Plug connects the host and its loop to a switch. Its packets depend on seed.
func (h *Host) Plug(f *myrinet.Fabric, sw *myrinet.Switch, seed uint64) error {
	h.rng = rand.New(rand.NewPCG(seed, 0x77696c64))
	h.port = f.Host("wild", h)
	if _, err := f.Join(h.port, sw.Port(Port)); err != nil {
		return err
	}
	_, err := f.Join(sw.Port(loopOut), sw.Port(loopIn))
	return err
}

// Run sends packets for the time length, with pauses of average length mean.
func (h *Host) Run(w *sim.World, length, mean time.Duration) error {
	for end := w.Now() + int64(length); w.Now() < end; {
		if err := w.Sleep(time.Duration(h.rng.Int64N(2 * int64(mean)))); err != nil {
			return err
		}
		h.strike()
	}
	return nil
}

// strike sends a packet, unless the previous one is still being sent.
func (h *Host) strike() {
	typ, payload := h.Forge(h.rng)
	switch h.rng.IntN(8) {
	case 0:
		typ, payload = uint16(h.rng.IntN(1<<15)), h.noise(64)
	case 1:
		typ, payload = mapper.PacketType, h.order()
	case 2:
		payload = append(payload, h.noise(longest)...)
	}
	if h.port.Send(hardware.AppendPacket(nil, h.route(), typ, payload)) {
		h.Struck++
	}
}

// order returns the beginning of a mapper's order or answer, followed by random bytes.
func (h *Host) order() []byte { return append([]byte{1, byte(h.rng.IntN(10))}, h.noise(256)...) }

func (h *Host) noise(most int) []byte {
	b := make([]byte, h.rng.IntN(most))
	for i := range b {
		b[i] = byte(h.rng.Uint32())
	}
	return b
}

// route returns a route, which usually leads to a host.
func (h *Host) route() (r myrinet.Route) {
	to := h.rng.IntN(h.Hosts)
	switch h.rng.IntN(8) {
	case 0: // anywhere
		for range h.rng.IntN(40) {
			r = append(r, int8(h.rng.IntN(17)-8))
		}
	case 1: // several times around the loop, and then to a host
		r = append(r, loopOut-Port)
		for range h.rng.IntN(30) {
			r = append(r, loopOut-loopIn)
		}
		r = append(r, int8(to-loopIn))
	case 2: // to a host, with unused turns
		r = myrinet.Route{int8(to - Port), 1, 0}
	case 3: // back to itself
		r = myrinet.Route{0}
	default:
		r = myrinet.Route{int8(to - Port)}
	}
	return r
}

// Room implements myrinet.Host.
func (h *Host) Room(int) bool { return true }

// Arrived implements myrinet.Host.
func (h *Host) Arrived(packet []byte, whole bool) {
	if !whole || h.Heard == nil {
		return
	}
	if _, payload, err := hardware.ParsePacket(packet); err == nil {
		h.Heard(payload)
	}
}

// Sent implements myrinet.Host.
func (h *Host) Sent() {}
