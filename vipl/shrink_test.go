package vipl_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// shrunkLink is a memLink whose interface can be given another MTU.
type shrunkLink struct {
	*memLink
	change error
}

func (l *shrunkLink) Check() error { return l.change }

func (l *shrunkLink) Info() transport.Info {
	i := l.memLink.Info()
	i.Virtual = false // only such links are looked at
	return i
}

// ownLink is a shrunkLink to itself, over which a NIC talks with its own host.
type ownLink struct{ shrunkLink }

func (l *ownLink) LocalMTU() int                                { return l.mtu }
func (l *ownLink) LocalSlots() int                              { return memSlots }
func (l *ownLink) OnDeparture(func(transport.PortRange, error)) {}

// TestShrunkMTU: a smaller MTU ends the connections with peers on the segment
// whose frames it does not carry, and none within the host, which do not use it.
func TestShrunkMTU(t *testing.T) {
	const peerMTU = 1400
	shrink := func(d *duo, change *error, mtu int, want vipl.State) {
		attr := &vipl.Attributes{PeerTimeout: time.Hour}
		d.a, _ = d.na.CreateVI(attr, nil, nil)
		d.b, _ = d.nb.CreateVI(attr, nil, nil)
		d.connect()
		*change = &transport.ChangeError{Interface: "mem", What: "MTU", Old: "1500", New: "less", MTU: mtu}
		*d.links[0].clock += int64(time.Second)
		d.run()
		if d.a.State() != want || d.b.State() != want {
			d.t.Errorf("MTU %d: a: %v (%v), b: %v (%v); want both %v", mtu, d.a.State(), d.a.Err(), d.b.State(), d.b.Err(), want)
		}
	}
	for mtu, want := range map[int]vipl.State{peerMTU: vipl.StateConnected, peerMTU - 1: vipl.StateError} {
		d := &duo{t: t}
		d.links[0], d.links[1] = memPair(1500)
		d.links[1].mtu = peerMTU
		wire := &shrunkLink{memLink: d.links[0]}
		d.na, d.nb = openQuiet(t, wire, 1), openQuiet(t, d.links[1], 2)
		shrink(d, &wire.change, mtu, want)
	}
	d := &duo{t: t}
	d.links[0], _ = memPair(1500)
	d.links[0].peer = d.links[0]
	own := &ownLink{shrunkLink{memLink: d.links[0]}}
	d.na = openQuiet(t, own, 1)
	d.nb = d.na
	shrink(d, &own.change, 1000, vipl.StateConnected)
}

func openQuiet(t *testing.T, link transport.Link, seed uint64) *vipl.NIC {
	t.Helper()
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: seed, NoService: true, WireOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}
