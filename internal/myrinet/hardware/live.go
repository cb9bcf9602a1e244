package hardware

import (
	"cmp"

	"github.com/bobnet-go/bobnet/transport/myrinet"

	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// CablePorts is the port range of a link that is the only live cable of its interface. A second
// cable on the same interface is refused, because the port is taken.
var CablePorts = transport.PortRange{Lo: 1, Hi: 1}

const (
	defaultLiveTimeout = 500 * time.Millisecond
	defaultSilence     = 2 * time.Second
	defaultGap         = 2 * time.Millisecond
	defaultMaxPacket   = 1 << 16

	hellosInSilence = 10 // greetings per Silence to a known neighbour
	searchInSilence = 50 // greetings per Silence without a neighbour

	// How long a packet may stand still, in units of Timeout. The packet that blocks others must be
	// broken first, so the order is: a packet that its card has no room for; a packet whose head
	// has left; a packet whose head waits for an output, or that receives no more frames.
	cardPatience   = 1
	gonePatience   = 2
	outputPatience = 4

	// leastMTU is the smallest MTU of a link that can be a cable. It leaves room for a route and a
	// short message after the header.
	leastMTU = 256

	maxBuffer = 2 << 20 // bytes in an input buffer, unless that is less than minSlots frames
	minSlots  = 16
	maxSlots  = 64
)

func withDefaults(o myrinet.LiveOptions) (myrinet.LiveOptions, error) {
	o.Timeout = cmp.Or(o.Timeout, defaultLiveTimeout)
	o.Silence = cmp.Or(o.Silence, defaultSilence)
	o.Gap = cmp.Or(o.Gap, defaultGap)
	o.MaxPacket = cmp.Or(o.MaxPacket, defaultMaxPacket)
	for _, c := range []struct {
		what      string
		v, lo, hi int64
	}{
		{"Timeout", int64(o.Timeout), int64(time.Millisecond), int64(time.Hour)},
		{"Silence", int64(o.Silence), int64(time.Millisecond), int64(time.Hour)},
		{"Gap", int64(o.Gap), int64(time.Microsecond), int64(time.Minute)},
		{"Spin", int64(o.Spin), 0, int64(time.Second)},
		{"MaxPacket", int64(o.MaxPacket), 16, 1 << 24},
	} {
		if c.v < c.lo || c.v > c.hi {
			return o, fmt.Errorf("myrinet: option %s is %d: want %d to %d", c.what, c.v, c.lo, c.hi)
		}
	}
	return o, nil
}

// checkLink returns an error if the link cannot be a cable.
func checkLink(info *transport.Info) error {
	if info.MTU < leastMTU {
		return fmt.Errorf("myrinet: %s has an MTU of %d, a cable needs %d at least: ip link set dev %s mtu 1500",
			info.Interface, info.MTU, leastMTU, info.Interface)
	}
	if !info.Ports.Contains(info.Ports.Lo) || info.Ports.Lo == ethertype.PortAll {
		return fmt.Errorf("myrinet: the link on %s has no port: open it with CablePorts", info.Interface)
	}
	return nil
}

// slotsFor returns the number of frames in an input buffer, a power of two.
func slotsFor(part int) int {
	n := maxSlots
	for n > minSlots && n*part > maxBuffer {
		n /= 2
	}
	return n
}

// tags draws incarnations.
type tags struct{ rng *rand.PCG } // nil: crypto/rand, which cannot be predicted

func newTags(seed uint64, mac ethertype.MAC) *tags {
	if seed == 0 {
		return &tags{}
	}
	var b [8]byte
	copy(b[:], mac[:])
	return &tags{rng: rand.NewPCG(seed, binary.BigEndian.Uint64(b[:]))}
}

// next returns a random number other than 0.
func (t *tags) next() (tag uint32) {
	for tag == 0 {
		if t.rng != nil {
			tag = uint32(t.rng.Uint64())
			continue
		}
		var b [4]byte
		crand.Read(b[:]) // never fails
		tag = binary.BigEndian.Uint32(b[:])
	}
	return tag
}
