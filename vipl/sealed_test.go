package vipl_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// sealKey returns one of several keys.
func sealKey(n byte) seal.Key { return seal.Key{n, 31: n} }

// sealedWorld returns a world whose NICs have a key.
func sealedWorld(opts sim.Options) *world {
	w := newWorld(opts)
	w.key = seal.Fixed(sealKey(1))
	return w
}

// TestSealedStorm has a connection carry everything that connections carry, over a segment
// that loses, doubles, reorders and corrupts sealed frames, while sessions replace each
// other.
func TestSealedStorm(t *testing.T) {
	seeds(t, manySeeds, func(seed uint64) error {
		opts := sim.Options{Seed: seed, Bandwidth: 1e9, Loss: 0.02, Dup: 0.02, Reorder: 0.03, Corrupt: 0.01}
		attr := vipl.Attributes{Reliability: reliableLevels[seed%2], PeerTimeout: 20 * time.Second, ConnectTimeout: 30 * time.Second}
		w := newWorld(opts)
		w.seals = &seal.Options{Keys: seal.Fixed(sealKey(1)), Limits: seal.Limits{Frames: 50 + seed%50}}
		if err := w.converse(attr, 1, 60, 200_000); err != nil {
			return err
		}
		for _, n := range w.nics {
			s, sealed := n.SealStats()
			if !sealed || s.Sealed == 0 {
				return fmt.Errorf("%+v", s)
			}
			if d := n.Snapshot().Dropped; d[drops.CRC]+d[drops.Format] > 0 {
				return fmt.Errorf("frames that were changed got through: %v", d)
			}
		}
		return nil
	})
}

// TestSealedRestart is TestRestart with a key: a new process at the address of one that was
// killed is found by the notice that it does not know the session.
func TestSealedRestart(t *testing.T) {
	for _, reborn := range []bool{true, false} {
		seeds(t, manySeeds, func(seed uint64) error {
			r := &restart{world: sealedWorld(sim.Options{Seed: seed, Bandwidth: 1e9, Loss: 0.02}), seed: seed, reborn: reborn,
				attr: &vipl.Attributes{Reliability: reliableLevels[seed%2]}}
			if seed%3 == 0 {
				return r.ofReceiver()
			}
			return r.ofSender()
		})
	}
}

// TestSealedStrangers: NICs with another key, or none, find nobody and connect to nobody,
// are not found, and both sides say why.
func TestSealedStrangers(t *testing.T) {
	one, other := seal.Fixed(sealKey(1)), seal.Fixed(sealKey(2))
	for _, c := range []struct {
		name           string
		server, client seal.Source
		hint           string // of the client
		serverCounts   func(seal.Stats) uint64
	}{
		{"another key", one, other, "it cannot open our frames: it has another key or none", func(s seal.Stats) uint64 { return s.OtherKey }},
		{"no key", one, nil, "its frames are sealed, and this NIC has no key", func(s seal.Stats) uint64 { return s.Unsealed }},
		{"the client alone", nil, one, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(sim.Options{Seed: 3, MTU: 1500})
			over := false
			server := w.node("server", &vipl.Config{Key: c.server}, func(n *vipl.NIC) error {
				if _, err := n.Listen(service); err != nil {
					return err
				}
				if err := n.Advertise("service", ethertype.Addr{MAC: n.Addr().MAC, Port: service}); err != nil {
					return err
				}
				for !over {
					if err := driveMs(n); err != nil {
						return err
					}
				}
				if s, _ := n.SealStats(); c.serverCounts != nil && c.serverCounts(s) == 0 {
					return fmt.Errorf("not counted: %+v", s)
				}
				if d := n.Snapshot().Dropped[drops.Sealed]; c.server == nil && d == 0 {
					return errors.New("sealed frames are not counted")
				}
				return nil
			}).MAC()
			w.node("client", &vipl.Config{Key: c.client}, func(n *vipl.NIC) error {
				defer func() { over = true }()
				if _, err := n.Lookup(bg, "service"); err == nil {
					return errors.New("the name was found")
				}
				if found, err := n.Discover(bg); err != nil || len(found) > 0 {
					return fmt.Errorf("found %v, %w", found, err)
				}
				v, err := n.CreateVI(&vipl.Attributes{Reliability: reliability.ReliableDelivery, ConnectTimeout: time.Second}, nil, nil)
				if err != nil {
					return err
				}
				if err = v.Connect(bg, ethertype.Addr{MAC: server, Port: service}, nil); !errors.Is(err, vipl.ErrTimeout) || !strings.Contains(err.Error(), c.hint) {
					return fmt.Errorf("connect: %w, want a hint %q", err, c.hint)
				}
				return nil
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSealedOpen: what Open refuses, and how the environment says a key.
func TestSealedOpen(t *testing.T) {
	station := func() transport.Link { return sim.New(sim.Options{Seed: 1}).Station("a") }
	for name, cfg := range map[string]vipl.Config{
		"any user": {Key: seal.Fixed(sealKey(1)), AnyUser: true},
		"no keys":  {Key: seal.Fixed()},
		"no file":  {Key: seal.File(t.TempDir() + "/none")},
	} {
		cfg.Link = station()
		if n, err := vipl.Open(t.Context(), &cfg); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("%s: %v, want ErrArgument", name, err)
			if err == nil {
				n.Close()
			}
		}
	}
	t.Setenv(vipl.EnvKey, sealKey(1).Text())
	if source, err := seam.Key(); err != nil || source == nil {
		t.Errorf("no key in the environment: %v", err)
	}
	t.Setenv(vipl.EnvKeyFile, "file")
	if _, err := seam.Key(); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("two keys in the environment: %v", err)
	}
}

// watched is a source of keys that says when it has been asked.
func watched(s seal.Source, when chan<- error) seal.Source {
	return func() ([]seal.Key, error) {
		keys, err := s()
		select {
		case when <- err:
		default: // nobody waits
		}
		return keys, err
	}
}

// TestSealedKeyFile rewrites the key files of two hosts under a connection that lives: from
// the old key by both to the new one, as docs/security.md has it. Nothing is lost, and the
// sessions under the old key end. A file that is broken, open to others, gone, or has too many keys
// leaves the keys valid that were there before.
func TestSealedKeyFile(t *testing.T) {
	old, fresh := sealKey(1).Text(), sealKey(2).Text()
	dir := t.TempDir()
	var paths [2]string
	var whens [2]chan error
	write := func(side int, text string, mode os.FileMode) {
		t.Helper()
		part := paths[side] + ".part" // so that nobody reads half a file
		if err := errors.Join(os.WriteFile(part, []byte(text), mode), os.Rename(part, paths[side])); err != nil {
			t.Fatal(err)
		}
	}
	nics := vethNICs(t, 1500, vipl.Config{}, func(side int, link transport.Link) transport.Link {
		paths[side], whens[side] = filepath.Join(dir, fmt.Sprint("key", side)), make(chan error)
		write(side, old, 0o600)
		l, err := seal.New(link, seal.Options{Keys: watched(seal.File(paths[side]), whens[side]), Reload: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
	read := func(side int) error { return readAgain(t, whens[side]) }
	a, b := join(t, nics, &vipl.Attributes{Reliability: reliability.ReliableDelivery})
	there, back := newFlow(t, a, b, 50, 3000, 1), newFlow(t, b, a, 50, 3000, 2)
	talk := func(when string) {
		t.Helper()
		within(t, when, func() error { return all(there.send, there.receive, back.send, back.receive) })
	}
	sessions := func() uint64 {
		s, _ := nics[0].SealStats()
		return s.Sessions
	}
	talk("with the old key")
	for _, text := range []string{old + "\n" + fresh, fresh + "\n" + old, fresh} {
		before := sessions()
		for side := range paths {
			write(side, text, 0o600)
			if err := read(side); err != nil {
				t.Fatal(err)
			}
			talk("while a key is replaced")
		}
		if text == fresh && sessions() == before {
			t.Error("the sessions under the old key go on")
		}
	}
	before := sessions()
	for name, f := range badKeyFiles(old, fresh) {
		write(0, f.text, f.mode)
		if err := read(0); !errors.Is(err, seal.ErrKey) {
			t.Errorf("%s: %v, want ErrKey", name, err)
		}
		talk(name)
	}
	if err := os.Remove(paths[0]); err != nil || !errors.Is(read(0), os.ErrNotExist) {
		t.Errorf("a file that is gone is read: %v", err)
	}
	talk("without a key file")
	if s, _ := nics[0].SealStats(); s.Sessions != before || s.OtherKey+s.Unsealed+s.Altered > 0 {
		t.Errorf("%d sessions before, and now %+v", before, s)
	}
}

// keyFile is what is written to one, and who may read it.
type keyFile struct {
	text string
	mode os.FileMode
}

// badKeyFiles returns key files that are refused.
func badKeyFiles(old, fresh string) map[string]keyFile {
	return map[string]keyFile{
		"broken": {fresh[1:], 0o600},
		"open":   {old, 0o604},
		"three":  {old + "," + fresh + "," + sealKey(3).Text(), 0o600},
	}
}

// readAgain waits until a file has been read since it was written, and what was read has been
// taken over, and returns whether it had keys.
func readAgain(t *testing.T, when <-chan error) (err error) {
	t.Helper()
	for range 3 {
		select {
		case err = <-when:
		case <-time.After(time.Minute):
			t.Fatal("the key file is not read again")
		}
	}
	return err
}
