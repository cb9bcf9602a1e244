package share_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

var seeds = seedtest.Flags("internal/myrinet/share", 3).Real()

// shared is a piece of memory that links of this process share.
type shared struct {
	from, size uintptr
	inode      string
}

// memories returns those that there are and are not among others.
func memories(t *testing.T, others []shared) (all []shared) {
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
		var to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &to); err != nil {
			t.Fatal(err)
		}
		m.size = to - m.from
		if !slices.ContainsFunc(others, func(o shared) bool { return o.inode == m.inode }) {
			all = append(all, m)
		}
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
		card, stop := serve(t, p, 0)
		defer stop()
		_, stop = serve(t, p, 1)
		defer stop()
		honest, far := attach(t, p, 0), attach(t, p, 1)
		reach(t, far, honest)
		reach(t, honest, far)
		others := memories(t, nil) // from now on all that comes is the wild one's
		wild := attach(t, p, 0)
		reach(t, far, wild)
		reach(t, wild, far)
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
		for round := range 50 {
			if err := scribble(t, rng, others); err != nil {
				return err
			}
			_, _ = wild.Send([]transport.Frame{{Head: make([]byte, 100)}}) // its link may end, and begin again
			_, _ = wild.Recv(make([][]byte, 16))
			if err := talks(round); err != nil {
				return fmt.Errorf("while it scribbles: %w", err)
			}
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
			f[framing.OffsetSrc+5] ^= 1
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

// scribble writes somewhere over the rings that the wild program shares with the card, which
// are those that are not others', if there are any at the moment.
func scribble(t *testing.T, rng *rand.Rand, others []shared) error {
	own := memories(t, others)
	if len(own) == 0 {
		return nil
	}
	m := own[rng.IntN(len(own))]
	junk := make([]byte, 1+rng.IntN(256))
	for i := range junk {
		junk[i] = byte(rng.Uint32())
	}
	within := int64(m.size) - int64(len(junk))
	if rng.IntN(2) == 0 {
		within = 4096 // where the rings say how far they are
	}
	at := rng.Int64N(within)
	// The card may give the ring up at any time, and then its addresses may be anybody's. So
	// this writes to a second mapping of the same memory, which a size of 0 makes: only of
	// memory that is shared, EINVAL if there is other memory now.
	base, _, errno := unix.Syscall6(unix.SYS_MREMAP, m.from, 0, m.size, unix.MREMAP_MAYMOVE, 0, 0)
	if errno == unix.EINVAL || errno == unix.EFAULT {
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("mremap: %w", errno)
	}
	defer unix.Syscall(unix.SYS_MUNMAP, base, m.size, 0)
	mem, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.WriteAt(junk, int64(base)+at)
	return err
}
