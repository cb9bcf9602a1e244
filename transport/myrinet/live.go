package myrinet

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// CablePorts is the range of ports of a link that is one end of a live cable, when it is
// the only one of its interface. A second one on the same interface is refused, as the
// port is taken.
var CablePorts = transport.PortRange{Lo: 1, Hi: 1}

// LiveOptions describes one end of a live cable, or all ports of a live switch. The zero
// value is what the defaults say.
type LiveOptions struct {
	// Timeout is after how long a packet is broken that its card does not take. One that
	// stands still farther behind is given two to four times as long, so that the one that
	// holds it up is broken first. It is longer than a cable's of hardware, because whoever
	// is to take the packet is a process that may have to wait for a processor. Each end
	// adds up to a quarter, so that no two agree. 0 means 500 ms.
	Timeout time.Duration
	// Silence is after how long a neighbour that says nothing is taken for gone. Ends that
	// have nothing else to say greet each other ten times in that time. 0 means 2 s.
	Silence time.Duration
	// Gap is how long a frame is waited for that another one has overtaken. Then it is
	// lost, and with it the packet. 0 means 2 ms.
	Gap time.Duration
	// MaxPacket is the longest packet with route and CRC-8, octets; 0 means 65,536.
	MaxPacket int
	// Spin is how long a port of a switch polls after the last frame before it sleeps; 0
	// for not at all. It is of no use in virtual time.
	Spin time.Duration
	// Seed is that of the incarnations; 0 means that nobody can guess them.
	Seed uint64
}

const (
	defaultLiveTimeout = 500 * time.Millisecond
	defaultSilence     = 2 * time.Second
	defaultGap         = 2 * time.Millisecond

	hellosInSilence = 10 // from a neighbour that is known
	searchInSilence = 50 // where there is none

	// How many times Timeout a packet may stand still. What holds up others is broken
	// before them: one that its card has no room for; then one whose head has gone; then
	// one whose head waits for an output, or of which nothing more comes.
	cardPatience   = 1
	gonePatience   = 2
	outputPatience = 4

	// leastMTU is the smallest MTU of a link that can be a cable: beside the header there
	// is place for a route and a short message.
	leastMTU = 256

	maxBuffer = 2 << 20 // octets of an input's buffer, unless that were fewer frames than minSlots
	minSlots  = 16
	maxSlots  = 64
)

func (o LiveOptions) withDefaults() (LiveOptions, error) {
	setDefault(&o.Timeout, defaultLiveTimeout)
	setDefault(&o.Silence, defaultSilence)
	setDefault(&o.Gap, defaultGap)
	setDefault(&o.MaxPacket, defaultMaxPacket)
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
			return o, fmt.Errorf("myrinet: option %s is %d, it can be %d to %d", c.what, c.v, c.lo, c.hi)
		}
	}
	return o, nil
}

// checkLink refuses a link that cannot be a cable.
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

// slotsFor returns how many frames the buffer of an input holds: a power of two.
func slotsFor(part int) int {
	n := maxSlots
	for n > minSlots && n*part > maxBuffer {
		n /= 2
	}
	return n
}

// tags draws incarnations.
type tags struct{ rng *rand.PCG } // nil: nobody can guess them

func newTags(seed uint64, mac ethertype.MAC) *tags {
	if seed == 0 {
		return &tags{}
	}
	var b [8]byte
	copy(b[:], mac[:])
	return &tags{rng: rand.NewPCG(seed, binary.BigEndian.Uint64(b[:]))}
}

// next returns a number that is not 0.
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
