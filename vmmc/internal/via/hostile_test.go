package via

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

var seeds = seedtest.Flags("vmmc/internal/via", 1)

// besieged is a process that is connected with itself: one end is honest, and the other one
// hears messages that nobody has sent. It is its own provider.Up.
type besieged struct {
	p      *Provider
	nic    *vipl.NIC
	random *rand.Rand
	memory []byte // of exports, with canaries around
	given  map[*provider.Grant]bool
	asked  []*provider.Request
	got    []*provider.Region
	made   int // connections
	err    error
}

func (u *besieged) failf(format string, args ...any) {
	if u.err == nil {
		u.err = fmt.Errorf(format, args...)
	}
}

func (u *besieged) Asked(r *provider.Request) {
	u.asked = append(u.asked, r)
	for len(u.asked) > 8 || len(u.asked) > 0 && u.random.IntN(2) == 0 {
		r, u.asked = u.asked[0], u.asked[1:]
		if u.random.IntN(4) == 0 {
			u.p.Deny(r, provider.ReasonPolicy)
			continue
		}
		at := 1024 * (1 + u.random.IntN(7))
		if g, err := u.p.Allow(r, u.memory[at:][:512], nil); err == nil {
			u.given[g] = true
		}
	}
}

func (u *besieged) Withdrawn(*provider.Request) {}

func (u *besieged) Answered(a *provider.Ask) {
	if a.Region != nil {
		u.got = append(u.got, a.Region)
	}
}

func (u *besieged) Lost(*provider.Region) {}

func (u *besieged) Released(g *provider.Grant) {
	if !u.given[g] {
		u.failf("a grant is released that was not given, or twice")
	}
	delete(u.given, g)
}

func (u *besieged) Redirected(g *provider.Grant, _, _ uint64, _ uint32) {
	if !u.given[g] {
		u.failf("a grant is redirected that was not given")
	}
}

func (u *besieged) Done(any, error) {}

func (u *besieged) Notified(g *provider.Grant) {
	if !u.given[g] {
		u.failf("a notification for a grant that was not given")
	}
	u.p.Handled(g)
}

// ends returns both ends of the connection, and makes one if there is none.
func (u *besieged) ends() [2]*conn {
	for u.p.itself == nil || u.p.conns[u.p.self.Addr] == nil || u.p.itself.state == accepting || u.p.conns[u.p.self.Addr].state != live {
		if u.p.conns[u.p.self.Addr] == nil {
			u.made++
			u.p.Ask(u.p.self.Addr, &provider.Ask{ID: 1})
		}
		u.turn()
	}
	return [2]*conn{u.p.itself, u.p.conns[u.p.self.Addr]}
}

func (u *besieged) turn() {
	u.p.Poll()
	u.p.Turn()
}

// message is one that a peer might send, with numbers that may be those of something.
func (u *besieged) message(b []byte) []byte {
	kind := byte(sayAsk + u.random.IntN(sayCredit-sayAsk+1))
	b = append(b[:0], kind, byte(u.random.IntN(3)), byte(u.random.IntN(3)))
	small := func() uint32 { return uint32(u.random.IntN(12)) }
	switch b = binary.BigEndian.AppendUint32(b, small()); kind {
	case sayAsk:
		b = append(put32(b, small()), make([]byte, provider.TicketSize)...)
	case sayGrant:
		b = put64(put32(put64(put32(b, 50+small()), u.random.Uint64()), small()), uint64(small()))
	case sayDeny:
		b = append(b, byte(small()))
	case sayRedirect:
		b = put32(put64(b, u.random.Uint64()), small())
	case sayRedirected:
		b = put32(put64(put64(b, u.random.Uint64()), u.random.Uint64()), small())
	}
	if u.random.IntN(50) == 0 { // one that no peer sends
		switch u.random.IntN(4) {
		case 0:
			b = b[:u.random.IntN(len(b))]
		case 1:
			b[0] = byte(u.random.Uint32())
		case 2:
			b = append(b, make([]byte, u.random.IntN(messageSize-len(b)))...)
		default:
			b[u.random.IntN(len(b))] ^= 1 << u.random.IntN(8)
		}
	}
	return b
}

// use does what the process itself may do meanwhile.
func (u *besieged) use() {
	for g := range u.given {
		switch u.random.IntN(3) {
		case 0:
			u.p.Revoke(g, false)
		case 1:
			_ = u.p.Redirect(g, u.memory[8192:][:len(g.Mem)])
		}
		break
	}
	if len(u.got) > 0 {
		r := u.got[0]
		u.got = u.got[1:]
		_ = u.p.Post(&provider.Write{Region: r, Data: [][]byte{{0x11, 0x11}}, Size: 2, Copy: true, Notify: true})
		u.p.Release(r)
	}
}

// besiege has a provider hear n messages.
func besiege(seed uint64, n int) error {
	w := sim.New(sim.Options{Seed: seed, Limit: 24 * time.Hour})
	u := &besieged{random: rand.New(rand.NewPCG(seed, 3)), memory: bytes.Repeat([]byte{0xEE}, 10240), given: map[*provider.Grant]bool{}}
	station := w.Station("besieged")
	w.Go("besieged", func() {
		if u.err = u.open(station, seed); u.err != nil {
			return
		}
		defer u.nic.Close()
		var room [messageSize]byte
		for i := 0; i < n && u.err == nil; i++ {
			u.ends()[u.random.IntN(2)].receive(u.message(room[:]))
			if i%16 == 0 {
				u.use()
				u.turn()
			}
		}
		u.p.Close()
		if len(u.given) > 0 {
			u.failf("%d grants are left after Close", len(u.given))
		}
	})
	if err := w.Run(); err != nil {
		return err
	}
	for i, b := range u.memory {
		inside := i < 8192 && i%1024 < 512 && i >= 1024 || i >= 8192 && i < 8192+512
		if b != 0xEE && !inside {
			return fmt.Errorf("byte %d around the exports was written", i)
		}
	}
	if u.err == nil && u.p.count.Violations == 0 {
		u.failf("no violation was counted, in %d connections", u.made)
	}
	return u.err
}

func (u *besieged) open(station *sim.Station, seed uint64) (err error) {
	if u.nic, err = vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: seed, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	u.p, err = Open(Config{NIC: u.nic, Process: 1, Connections: 4, Sends: 64, Kick: func() {}}, u)
	return err
}

// TestMillionMessages: a million messages, right ones by their form with any numbers, and
// mutated ones, harm nobody but the connection that they come on.
func TestMillionMessages(t *testing.T) {
	n := 1_000_000
	if !need.Full() {
		n = 20_000
	}
	if err := besiege(seeds.First(), n); err != nil {
		t.Fatal(err)
	}
}

// FuzzMessage: any one message.
func FuzzMessage(f *testing.F) {
	for kind := byte(0); kind <= sayCredit+1; kind++ {
		f.Add(append(message(kind, 1, 0), make([]byte, 40)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w := sim.New(sim.Options{})
		u := &besieged{random: rand.New(rand.NewPCG(1, 3)), memory: make([]byte, 10240), given: map[*provider.Grant]bool{}}
		station := w.StationWith(sim.StationOptions{Name: "besieged", Ports: transport.PortRange{Lo: 1024, Hi: 2047}}) // a table of all ports takes 1 MB
		w.Go("besieged", func() {
			if u.err = u.open(station, 1); u.err != nil {
				return
			}
			defer u.nic.Close()
			for i := range 2 {
				u.ends()[i].receive(b[:min(len(b), messageSize)])
				u.turn()
			}
			u.ends()
			u.p.Close()
		})
		if err := w.Run(); err != nil || u.err != nil {
			t.Fatal(err, u.err)
		}
	})
}
