package mapper

import (
	"reflect"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"pgregory.net/rapid"
)

func drawMAC(rt *rapid.T, label string) ethertype.MAC {
	return ethertype.MAC(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(rt, label))
}

func drawRoute(rt *rapid.T, label string) myrinet.Route {
	r := rapid.SliceOfN(rapid.Int8Range(-31, 31), 0, 20).Draw(rt, label)
	return append(myrinet.Route{}, r...)
}

func drawMessage(rt *rapid.T) message {
	m := message{kind: kind(rapid.IntRange(1, int(kinds)-1).Draw(rt, "kind")), mapper: drawMAC(rt, "mapper"),
		token: rapid.Uint64().Draw(rt, "token"), request: rapid.Uint32().Draw(rt, "request")}
	if m.kind == ask || m.kind == look || m.kind == install || m.kind == clearAll {
		m.back = drawRoute(rt, "back")
	}
	if m.kind != echo && m.kind != ask && m.kind != look && m.kind != alive {
		m.host = drawMAC(rt, "host")
	}
	if m.kind == answer {
		m.leader, m.age = drawMAC(rt, "leader"), rapid.Uint32().Draw(rt, "age")
		m.name = rapid.StringN(0, 8, maxNameLen).Draw(rt, "name")
	}
	if m.kind == answer || m.kind == install || m.kind == ack {
		m.digest = rapid.Uint64().Draw(rt, "digest")
	}
	if m.kind == install {
		m.parts = rapid.Uint8Range(1, 255).Draw(rt, "parts")
		m.part = rapid.Uint8Range(0, m.parts-1).Draw(rt, "part")
		for range rapid.IntRange(0, 5).Draw(rt, "entries") {
			m.entries = append(m.entries, myrinet.HostRoute{To: drawMAC(rt, "to"), Turns: drawRoute(rt, "route")})
		}
	}
	return m
}

// TestMessageRoundTrip: what is appended is what is parsed, and nothing else is a
// message.
func TestMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMessage(rt)
		wire := m.append(nil)
		var got message
		if err := got.parse(wire); err != nil || !reflect.DeepEqual(got, m) {
			rt.Fatalf("%+v became %+v, %v", m, got, err)
		}
		if got.parse(wire[:rapid.IntRange(0, len(wire)-1).Draw(rt, "cut")]) == nil || got.parse(append(wire, 0)) == nil {
			rt.Fatal("a message that is cut, or too long, is taken")
		}
		wire[0]++
		if got.parse(wire) == nil {
			rt.Fatal("a message of another version is taken")
		}
	})
}

// FuzzMessage: any bytes are refused, or are a message that is written as it was read.
func FuzzMessage(f *testing.F) {
	for k := kind(0); k <= kinds; k++ {
		f.Add((&message{kind: k, parts: 1, entries: []myrinet.HostRoute{{Turns: myrinet.Route{1}}}}).append(nil))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var m message
		if m.parse(wire) != nil {
			return
		}
		var again message
		if err := again.parse(m.append(nil)); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
