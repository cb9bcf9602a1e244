package share_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/linktest"
)

var seeds = seedtest.Flags("transport/myrinet/share", 3)

// shared is a piece of memory that links of this process share.
type shared struct {
	from, to int64
	inode    string
}

// memories returns those that there are.
func memories(t *testing.T) (all []shared) {
	t.Helper()
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasPrefix(fields[5], "/memfd:bobnet") {
			continue
		}
		m := shared{inode: fields[4]}
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// TestHostile: a program that floods the card with frames of others and of none, and then
// scribbles over the rings that it shares with the card, loses its own link at most: another
// program at the same card goes on, nothing forged leaves the card, and a new program gets
// the wild one's place.
func TestHostile(t *testing.T) {
	seeds.Each(t, 3, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := vethtest.New(t, 1500)
		card, _ := serve(t, p, 0)
		serve(t, p, 1)
		far := attach(t, p, 1)
		before := memories(t)
		wild := attach(t, p, 0)
		reach(t, far, wild)
		reach(t, wild, far)
		own := slices.DeleteFunc(memories(t), func(m shared) bool {
			return slices.ContainsFunc(before, func(b shared) bool { return b.inode == m.inode })
		})
		if len(own) == 0 {
			return fmt.Errorf("the program shares no memory with the card")
		}
		honest := attach(t, p, 0)
		reach(t, far, honest)
		reach(t, honest, far)
		talks := func(round int) error {
			for _, x := range []struct{ from, to transport.Link }{{honest, far}, {far, honest}} {
				want := fmt.Sprintf("round %d of %d", round, seed)
				send(t, x.from, x.to, want)
				if got := get(t, x.to); got != want {
					return fmt.Errorf("%q has come, want %q", got, want)
				}
			}
			return nil
		}
		for round := range 50 {
			flood(rng, wild, honest, far)
			if err := talks(round); err != nil {
				return fmt.Errorf("while it floods: %w", err)
			}
		}
		if _, forged, _ := card.Stats(); forged == 0 {
			return fmt.Errorf("no forged frame was counted")
		}
		if err := scribble(rng, own, wild, talks); err != nil {
			return fmt.Errorf("while it scribbles: %w", err)
		}
		wild.Close()
		next := attach(t, p, 0)
		reach(t, far, next)
		reach(t, next, far)
		return talks(1000)
	})
}

// flood sends frames that are not the program's to send: with another's port or address,
// and without sense.
func flood(rng *rand.Rand, wild, honest, far transport.Link) {
	var batch []transport.Frame
	for range transport.MaxBatch {
		f := linktest.NewFrame(honest.Info(), far.Info(), far.Info().Ports.Lo, []byte("forged"))
		switch rng.IntN(3) {
		case 0:
			f = linktest.NewFrame(wild.Info(), far.Info(), far.Info().Ports.Lo, []byte("forged"))
			f[ethertype.OffsetSrc+5] ^= 1
		case 1:
			f = f[:1+rng.IntN(len(f)-1)]
			for i := range f {
				f[i] = byte(rng.Uint32())
			}
		}
		batch = append(batch, transport.Frame{Head: f})
	}
	_, _ = wild.Send(batch) // what its own ring does not take is dropped
}

// scribble writes over the rings that the program shares with the card, and has it use them.
func scribble(rng *rand.Rand, own []shared, wild transport.Link, talks func(round int) error) error {
	mem, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	views := make([][]byte, 16)
	for round := range 50 {
		m := own[rng.IntN(len(own))]
		junk := make([]byte, 1+rng.IntN(256))
		for i := range junk {
			junk[i] = byte(rng.Uint32())
		}
		at := m.from + rng.Int64N(m.to-m.from-int64(len(junk)))
		if rng.IntN(2) == 0 {
			at = m.from + rng.Int64N(4096) // where the rings say how far they are
		}
		if _, err := mem.WriteAt(junk, at); err != nil {
			return nil // it has lost the ring already
		}
		_, _ = wild.Send([]transport.Frame{{Head: make([]byte, 100)}}) // its link may end
		_, _ = wild.Recv(views)
		if err := talks(round); err != nil {
			return err
		}
	}
	return nil
}
