package vipl_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vipl/internal/directory"
)

// hosts runs a node for each name on a lossy segment; the first runs ask and
// the others drive their NICs until it has returned.
func hosts(opts sim.Options, names []string, ask func(n *vipl.NIC, all []ethertype.Addr) error) error {
	w := newWorld(opts)
	w.long = false // every station has an MTU of its own here
	var all []ethertype.Addr
	asked := false
	for i, name := range names {
		s := w.StationWith(sim.StationOptions{Name: fmt.Sprint(name, i), MTU: 1500 + 100*i})
		all = append(all, ethertype.Addr{MAC: s.MAC(), Port: s.Info().Ports.Lo})
		cfg := &vipl.Config{Seed: opts.Seed<<8 + uint64(i), Names: &vipl.NameConfig{HostName: name, Ethers: "/nonexistent"}}
		w.nodeOn(s, name, cfg, func(n *vipl.NIC) error {
			if i == 0 {
				defer func() { asked = true }()
				return ask(n, all)
			}
			for !asked {
				driveFor(n, time.Millisecond)
			}
			return nil
		})
	}
	return w.run()
}

// TestDiscover finds every NIC of a segment that loses 30 % each way, with what
// it says of itself.
func TestDiscover(t *testing.T) {
	names := []string{"ada", "bob", "cleo", "dora", "emil"}
	seeds(t, manySeeds/10, func(seed uint64) error {
		return hosts(sim.Options{Seed: seed, Loss: 0.3, Dup: 0.1}, names, func(n *vipl.NIC, all []ethertype.Addr) error {
			began := n.Now()
			found, err := n.Discover(bg)
			if took := time.Duration(n.Now() - began); took < directory.DiscoverTime || took > directory.DiscoverTime+10*time.Millisecond {
				return fmt.Errorf("listened for %v", took)
			}
			if err != nil || len(found) != len(names)-1 {
				return fmt.Errorf("found %v, %w", found, err)
			}
			for _, s := range found {
				i := 0
				for all[i] != s.Addr {
					i++
				}
				if s.HostName != names[i] || s.MTU != 1500+100*i || s.Ports.Lo != s.Addr.Port || !strings.Contains(s.Driver, "sim") || s.Incarnation == 0 {
					return fmt.Errorf("station %d: %+v", i, s)
				}
			}
			return nil
		})
	})
}

// TestDiscoverLimits: a deadline in the NIC's time ends it earlier, a cancelled
// context at once.
func TestDiscoverLimits(t *testing.T) {
	err := hosts(sim.Options{Seed: 1}, []string{"a", "b"}, func(n *vipl.NIC, all []ethertype.Addr) error {
		ctx, cancel := n.WithTimeout(bg, 50*time.Millisecond)
		began := n.Now()
		found, err := n.Discover(ctx)
		if took := time.Duration(n.Now() - began); took != 50*time.Millisecond || err != nil || len(found) != 1 {
			return fmt.Errorf("after %v: %v, %v", took, found, err)
		}
		cancel()
		began = n.Now()
		if _, err = n.Discover(ctx); n.Now() != began {
			return fmt.Errorf("a cancelled context: %v after %v, %v", err, time.Duration(n.Now()-began), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDiscoverHostile answers a Discover with thousands of stations, and with
// what no NIC says.
func TestDiscoverHostile(t *testing.T) {
	links := [2]*memLink{}
	links[0], links[1] = memPair(1500)
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: links[0], Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	good := func(mac ethertype.MAC) []byte {
		b := binary.BigEndian.AppendUint64(nil, 7)
		b = binary.BigEndian.AppendUint32(b, 1500)
		b = append(b, 4, 0, 7, 255, 3, 1)
		return append(b, "simA"...)
	}
	sent := 0
	bad := func(k int) bool { return 0 < k && k < 8 }
	links[0].onSend = func(frame []byte) {
		var h ethertype.Header
		payload, err := h.Parse(frame)
		if err != nil || h.Kind != ethertype.KindQuery || len(payload) != 0 || h.Dst != ethertype.Broadcast {
			t.Fatalf("asked by %v %q, %v", h.Kind, payload, err)
		}
		for range 900 {
			mac := ethertype.MAC{2, 1, 0, 0, byte(sent >> 8), byte(sent)}
			body, tag, port := good(mac), h.Tag, uint16(0x400)
			if k := sent % 16; bad(k) { // each in one way
				switch k {
				case 1:
					tag++
				case 2:
					body = body[:rng.IntN(len(body))]
				case 3:
					mac[0] |= 1
				case 4:
					binary.BigEndian.PutUint32(body[8:], rng.Uint32()|1<<20)
				case 5:
					body[17] = 200
				case 6:
					binary.BigEndian.PutUint16(body[12:], 0x900) // lowest port above the highest
				case 7:
					port++
				}
			}
			sent++
			links[1].Send([]transport.Frame{control(ethertype.Header{Dst: h.Src, Src: mac, Kind: ethertype.KindAnswer, DstPort: h.SrcPort, SrcPort: port, Tag: tag}, body)})
		}
	}
	found, err := n.Discover(bg)
	if err != nil {
		t.Fatal(sent, err)
	}
	want := 0
	for i := range sent {
		if !bad(i % 16) {
			want++
		}
	}
	if want <= directory.MaxStations || len(found) != directory.MaxStations {
		t.Errorf("%d stations of %d good answers", len(found), want)
	}
	if dropped := n.Snapshot().Dropped[drops.Unknown]; dropped != uint64(sent-directory.MaxStations) {
		t.Errorf("%d answers dropped, want %d", dropped, sent-directory.MaxStations)
	}
}

// control makes a frame that is not part of a connection.
func control(h ethertype.Header, body []byte) transport.Frame {
	h.Type, h.Flags, h.Size = ethertype.Default, ethertype.FlagWholeCRC, uint16(len(body))
	head := make([]byte, ethertype.HeaderSize, ethertype.HeaderSize+len(body))
	h.Put(head)
	head = append(head, body...)
	ethertype.Seal(head)
	return transport.Frame{Head: head}
}

// TestHosts asks the segment for names and addresses.
func TestHosts(t *testing.T) {
	names := []string{"ada", "twin", "twin", "dora", "ada"}
	seeds(t, manySeeds/10, func(seed uint64) error {
		return hosts(sim.Options{Seed: seed, Loss: 0.3 * float64(seed%2)}, names, func(n *vipl.NIC, all []ethertype.Addr) error {
			for _, q := range []struct {
				name  string
				index int
				want  int // of the station, or -1
			}{{"dora", 0, 3}, {"dora", 1, -1}, {"twin", 0, 1}, {"twin", 1, 2}, {"twin", 2, -1}, {"ada", 0, 0}, {"ada", 1, 4}, {"nobody", 0, -1}} {
				if seed%2 == 1 && q.index == 1 {
					continue // one of two may be lost at that rate
				}
				got, err := n.HostByName(bg, q.name, q.index)
				switch {
				case q.want < 0 && !errors.Is(err, vipl.ErrNameService):
					return fmt.Errorf("%s %d: %v, %v", q.name, q.index, got, err)
				case q.want >= 0 && (err != nil || seed%2 == 0 && got != all[q.want]):
					return fmt.Errorf("%s %d: %v, %v, want %v", q.name, q.index, got, err, all[q.want])
				}
			}
			for i, addr := range all {
				if name, err := n.HostByAddr(bg, addr); err != nil || name != names[i] {
					return fmt.Errorf("%v: %q, %w, want %q", addr, name, err, names[i])
				}
				addr.Port = 0
				if name, err := n.HostByAddr(bg, addr); err != nil || name != names[i] {
					return fmt.Errorf("%v: %q, %w, want %q", addr, name, err, names[i])
				}
			}
			nobody := all[0]
			nobody.MAC[5] ^= 0x55
			if name, err := n.HostByAddr(bg, nobody); !errors.Is(err, vipl.ErrNameService) {
				return fmt.Errorf("nobody: %q, %v", name, err)
			}
			return nil
		})
	})
}

func TestHostErrors(t *testing.T) {
	d := newDuo(t, nil, nil)
	for _, q := range []struct {
		name  string
		index int
	}{{"", 0}, {"a", -1}, {strings.Repeat("x", vipl.MaxHostName+1), 0}} {
		if _, err := d.na.HostByName(bg, q.name, q.index); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("%q %d: %v", q.name, q.index, err)
		}
	}
	for _, mac := range []ethertype.MAC{{}, ethertype.Broadcast} {
		if _, err := d.na.HostByAddr(bg, ethertype.Addr{MAC: mac}); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("%v: %v", mac, err)
		}
	}
	d.na.Close()
	if _, err := d.na.HostByName(bg, "a", 0); !errors.Is(err, vipl.ErrClosed) {
		t.Error(err)
	}
	if _, err := d.na.Discover(bg); !errors.Is(err, vipl.ErrClosed) {
		t.Error(err)
	}
}

const ethers = `# a comment, then a blank line

08:00:20:00:61:CA  pal    # as in ethers(5)
8:0:20:0:61:cb	pal
02:00:00:00:00:07 seven
nonsense
02:00:00:00:00:08 two names
ff:ff:ff:ff:ff:ff all
02:00:00:00:00:09
`

// TestEthers reads a file of host names: its names come before those of the
// segment, and need no frame.
func TestEthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ethers")
	if err := os.WriteFile(path, []byte(ethers), 0o600); err != nil {
		t.Fatal(err)
	}
	links := [2]*memLink{}
	links[0], _ = memPair(1500)
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: links[0], Seed: 1, Names: &vipl.NameConfig{HostName: "me", Ethers: path}})
	if err != nil {
		t.Fatal(err) // lines that are none do not matter to Open
	}
	defer n.Close()
	for i, want := range []ethertype.MAC{{8, 0, 0x20, 0, 0x61, 0xCA}, {8, 0, 0x20, 0, 0x61, 0xCB}} {
		if a, err := n.HostByName(bg, "pal", i); err != nil || a != (ethertype.Addr{MAC: want}) {
			t.Errorf("pal %d: %v, %v", i, a, err)
		}
	}
	if name, err := n.HostByAddr(bg, ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 7}, Port: 4711}); err != nil || name != "seven" {
		t.Errorf("%q, %v", name, err)
	}
	if links[0].frames != 0 {
		t.Errorf("%d frames were sent", links[0].frames)
	}
	for _, name := range []string{"two", "all", "nonsense", "pal"} {
		index := 0
		if name == "pal" {
			index = 2
		}
		if a, err := n.HostByName(bg, name, index); !errors.Is(err, vipl.ErrNameService) {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
	if err := n.StartNames(&vipl.NameConfig{Ethers: path}); !errors.Is(err, vipl.ErrNameService) || !strings.Contains(err.Error(), "line 6") {
		t.Errorf("the first bad line is not told: %v", err)
	}
	if err := n.StartNames(&vipl.NameConfig{Ethers: path + "x"}); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if err := n.StartNames(&vipl.NameConfig{Ethers: filepath.Dir(path)}); !errors.Is(err, vipl.ErrNameService) {
		t.Errorf("a directory: %v", err)
	}
}

// TestStopNames: a stopped name service neither asks nor answers names, and
// starts again; Discover does not need it.
func TestStopNames(t *testing.T) {
	err := hosts(sim.Options{Seed: 1}, []string{"a", "b"}, func(n *vipl.NIC, all []ethertype.Addr) error {
		if err := n.Advertise("service", n.Addr()); err != nil {
			return err
		}
		n.StopNames()
		_, byName := n.HostByName(bg, "b", 0)
		_, byAddr := n.HostByAddr(bg, all[1])
		_, lookup := n.Lookup(bg, "service")
		for i, err := range []error{byName, byAddr, lookup, n.Advertise("other", n.Addr())} {
			if !errors.Is(err, vipl.ErrNameService) {
				return fmt.Errorf("call %d while stopped: %v", i, err)
			}
		}
		if found, err := n.Discover(bg); err != nil || len(found) != 1 {
			return fmt.Errorf("discover while stopped: %v, %w", found, err)
		}
		if err := n.StartNames(&vipl.NameConfig{HostName: "c"}); err != nil {
			return err
		}
		if a, err := n.HostByName(bg, "c", 0); err != nil || a != n.Addr() {
			return fmt.Errorf("its new name: %v, %w", a, err)
		}
		return n.Advertise("service", n.Addr())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestVirtualDeadline: deadlines that the NIC has made end waits in virtual
// time, to the nanosecond; a cancelled context ends them too.
func TestVirtualDeadline(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	w.node("a", nil, func(n *vipl.NIC) error {
		v, _ := n.CreateVI(nil, nil, nil)
		in := &inbox{count: 1, size: 8}
		if err := in.post(v); err != nil {
			return err
		}
		l, _ := n.Listen(service)
		cq, _ := n.CreateCQ(1)
		nobody := ethertype.Addr{MAC: ethertype.MAC{2, 9}, Port: 5}
		for _, x := range []struct {
			name string
			wait func(ctx context.Context) error
		}{
			{"RecvWait", func(ctx context.Context) error { _, err := v.RecvWait(ctx); return err }},
			{"Listener", func(ctx context.Context) error { _, err := l.Wait(ctx); return err }},
			{"CQ", func(ctx context.Context) error { _, _, err := cq.Wait(ctx); return err }},
			{"Connect", func(ctx context.Context) error { return v.Connect(ctx, nobody, nil) }},
			{"Peer", func(ctx context.Context) error { return v.ConnectPeer(ctx, nobody, nil) }},
			{"Echo", func(ctx context.Context) error { _, err := n.Echo(ctx, nobody, 8); return err }},
		} {
			const d = 1234567 * time.Nanosecond
			ctx, cancel := n.WithTimeout(bg, d)
			longer, _ := n.WithTimeout(ctx, time.Hour) // the earlier counts
			began := n.Now()
			if err := x.wait(longer); !errors.Is(err, vipl.ErrTimeout) || n.Now()-began != int64(d) {
				return fmt.Errorf("%s: %v after %v, want %v", x.name, err, time.Duration(n.Now()-began), d)
			}
			cancel()
			began = n.Now()
			if err := x.wait(ctx); !errors.Is(err, vipl.ErrTimeout) || n.Now() != began {
				return fmt.Errorf("%s, cancelled: %v after %v", x.name, err, time.Duration(n.Now()-began))
			}
			if v.State() != vipl.StateIdle {
				return fmt.Errorf("%s left the VI %v", x.name, v.State())
			}
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}
