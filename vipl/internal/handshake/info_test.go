package handshake

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

// random returns what a NIC might say.
func random(rng *rand.Rand) Info {
	levels := []reliability.Level{reliability.Unreliable, reliability.ReliableDelivery, reliability.ReliableReception}
	c := Info{
		Incarnation: rng.Uint64(), Tag: 1 + rng.Uint32N(1<<31), Seq: ethertype.Seq(rng.Uint32()), MTU: uint32(MinMTU + rng.IntN(ethertype.MaxMTU-MinMTU)),
		Terms: Terms{
			Reliability: levels[rng.IntN(len(levels))], MaxTransferSize: rng.Uint32(), QoS: rng.Uint32(), ReadDepth: 1 + rng.IntN(MaxReadDepth),
			EnableRDMAWrite: rng.IntN(2) == 0, EnableRDMARead: rng.IntN(2) == 0, WholeCRC: rng.IntN(2) == 0,
		},
		Peer: rng.IntN(2) == 0, Long: rng.IntN(2) == 0, Named: rng.IntN(2) == 0, More: rng.IntN(2) == 0,
	}
	if size := rng.IntN(MaxData + 1); size > 0 {
		c.Data = bytes.Repeat([]byte{byte(rng.Uint32())}, size)
	}
	return c
}

// TestRoundTrip: what is said is what is heard, whatever follows it; and of less than all
// of it nothing.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		want := random(rng)
		frame := want.Append(nil)
		if len(frame) != InfoSize+len(want.Data) {
			t.Fatalf("%d bytes for %d of private data", len(frame), len(want.Data))
		}
		if got, ok := ParseInfo(append(frame, 0, 0, 0)); !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %+v, want %+v", ok, got, want)
		}
		if got, ok := ParseInfo(frame[:rng.IntN(len(frame))]); ok {
			t.Fatalf("a part of it is taken for %+v", got)
		}
	}
}

// TestParseRefuses: what no NIC says is refused.
func TestParseRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for name, change := range map[string]func(c *Info){
		"no tag":         func(c *Info) { c.Tag = 0 },
		"no level":       func(c *Info) { c.Terms.Reliability = 0 },
		"two levels":     func(c *Info) { c.Terms.Reliability = 3 },
		"small MTU":      func(c *Info) { c.MTU = MinMTU - 1 },
		"large MTU":      func(c *Info) { c.MTU = ethertype.MaxMTU + 1 },
		"no reads":       func(c *Info) { c.Terms.ReadDepth = 0 },
		"too many reads": func(c *Info) { c.Terms.ReadDepth = MaxReadDepth + 1 },
		"too much data":  func(c *Info) { c.Data = make([]byte, MaxData+1) },
	} {
		c := random(rng)
		change(&c)
		if got, ok := ParseInfo(c.Append(nil)); ok {
			t.Errorf("%s: taken for %+v", name, got)
		}
	}
}
