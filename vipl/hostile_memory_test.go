package vipl_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// TestScribble writes nonsense into the memory that two NICs on one host share,
// under traffic both ways. The connection ends on both sides; who gives the
// memory up says that the peer has broken the rules. Either NIC goes on serving
// others, and the other one. Nothing is written but what is posted.
func TestScribble(t *testing.T) {
	seeds := uint64(8)
	if !need.Full() {
		seeds = 3
	}
	for _, driver := range []string{"shm", "ring"} {
		broken := 0
		p := vethtest.New(t, 1500)
		for seed := range seeds {
			t.Run(fmt.Sprint(driver, "/", seed), func(t *testing.T) {
				nics := [2]*vipl.NIC{openOn(t, p, 0, driver), openOn(t, p, 0, driver)}
				rng := rand.New(rand.NewPCG(seed, 0))
				broken += spoiled(t, nics, func(mem *os.File, files []sharedFile) {
					scribble(t, rng, mem, files[rng.IntN(len(files))])
				})
				third := openOn(t, p, 0, driver)
				for _, n := range nics {
					startStream(t, [2]*vipl.NIC{n, third}, nil)
				}
				startStream(t, nics, nil)
			})
		}
		if broken == 0 {
			t.Errorf("%s: no shared memory was given up", driver)
		}
	}
}

// TestClearedRings takes frames out of the memory that two NICs share, which then
// wait for ever for what has been sent. Nothing in it cannot be by itself; but the
// NICs find out long before a silent peer is given up, and connect again.
func TestClearedRings(t *testing.T) {
	for _, driver := range []string{"shm", "ring"} {
		t.Run(driver, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			nics := [2]*vipl.NIC{openOn(t, p, 0, driver), openOn(t, p, 0, driver)}
			const control = 64 << 10
			nothing := make([]byte, 1<<20)
			broken := spoiled(t, nics, func(mem *os.File, files []sharedFile) {
				for _, f := range files {
					if f.start < control {
						continue
					}
					if _, err := mem.WriteAt(nothing[:min(len(nothing), int(f.size))], int64(f.addr)); err != nil {
						t.Fatal(err)
					}
				}
			})
			if broken == 0 {
				t.Error("the shared memory was not given up")
			}
			startStream(t, nics, nil)
		})
	}
}

// spoiled connects NICs and spoils what they share, until both connections
// have ended. It returns how many of them did because the memory was given up.
func spoiled(t *testing.T, nics [2]*vipl.NIC, spoil func(mem *os.File, files []sharedFile)) (broken int) {
	known := map[string]bool{}
	for _, f := range sharedFiles(t) {
		known[f.inode] = true
	}
	peers, in := exchanging(t, nics)
	private := [2][]byte{newPrivate(t, nics[0]), newPrivate(t, nics[1])}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	var files []sharedFile
	for _, f := range sharedFiles(t) {
		if !known[f.inode] {
			files = append(files, f.again(t))
		}
	}
	if len(files) == 0 {
		t.Fatal("the NICs share no memory")
	}
	for peers[0].vi.State() == vipl.StateConnected && peers[1].vi.State() == vipl.StateConnected {
		spoil(mem, files)
	}
	for _, x := range peers {
		within(t, "the end", func() error {
			if err := <-x.ended; !errors.Is(err, vipl.ErrDescriptor) {
				return fmt.Errorf("ended with %w", err)
			}
			return nil
		})
		var why *vipl.ConnError
		switch err := x.vi.Err(); {
		case !errors.As(err, &why):
			t.Errorf("ended with %v", err)
		case why.Detail == shm.ErrBroken.Error():
			if broken++; why.Err != vipl.ErrProtocol {
				t.Errorf("the memory was given up with %v, want %v", err, vipl.ErrProtocol)
			}
		}
	}
	for side := range nics {
		if err := in[side].intact(); err != nil {
			t.Errorf("side %d: %v", side, err)
		}
		if !bytes.Equal(private[side], privatePattern) {
			t.Errorf("side %d: memory that no peer may write to was written to", side)
		}
	}
	return broken
}

// privatePattern fills memory that is registered and open to no peer.
var privatePattern = bytes.Repeat([]byte{0x5B}, 1<<20)

func newPrivate(t *testing.T, n *vipl.NIC) []byte {
	t.Helper()
	mem := bytes.Clone(privatePattern)
	if _, err := n.RegisterMem(mem, nil); err != nil {
		t.Fatal(err)
	}
	return mem
}

// exchanging connects NICs and has both exchange messages with the other,
// whatever is in them. It returns when some have arrived, with the buffers for them.
// Peers may write where a region lets them.
func exchanging(t *testing.T, nics [2]*vipl.NIC) (peers [2]*peer, in [2]fenced) {
	t.Helper()
	a, b := join(t, nics, openTo(reliability.ReliableDelivery))
	for i, v := range []*vipl.VI{a, b} {
		peers[i] = &peer{vi: v, ended: make(chan error, 1)}
		var err error
		if in[i], err = newFenced(v.NIC(), 2*peerAhead, peerSize); err != nil {
			t.Fatal(err)
		}
		for k := range in[i].descs {
			if err := v.PostRecv(&in[i].descs[k]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, x := range peers {
		go func() { x.ended <- x.exchange() }()
	}
	for _, x := range peers {
		x.moves(t)
	}
	return peers, in
}

// sharedFile is a mapping of a file that NICs share.
type sharedFile struct {
	inode      string
	addr, size uintptr
	start      uint64 // in the file
}

// sharedFiles returns what the NICs of this process share.
func sharedFiles(t *testing.T) (list []sharedFile) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var f sharedFile
		var end uintptr
		var perms, dev, path string
		fmt.Sscanf(line, "%x-%x %s %x %s %s %s", &f.addr, &end, &perms, &f.start, &dev, &f.inode, &path)
		if f.size = end - f.addr; path == "/memfd:bobnet" {
			list = append(list, f)
		}
	}
	return list
}

// again maps the same once more, to stay when the NICs have done with it.
func (f sharedFile) again(t *testing.T) sharedFile {
	t.Helper()
	addr, _, errno := unix.Syscall6(unix.SYS_MREMAP, f.addr, 0, f.size, unix.MREMAP_MAYMOVE, 0, 0)
	if errno != 0 {
		t.Fatal("mremap:", errno)
	}
	t.Cleanup(func() { unix.Syscall(unix.SYS_MUNMAP, addr, f.size, 0) })
	f.addr = addr
	return f
}

// scribble changes up to eight bytes, often where they hurt.
func scribble(t *testing.T, rng *rand.Rand, mem *os.File, f sharedFile) {
	at := rng.Int64N(int64(f.size) - 8)
	switch {
	case rng.IntN(2) == 0:
		at &^= 63 // the start of a record
	case f.start == 0:
		at = rng.Int64N(2) * 1024 // what the reader has freed
	}
	b := binary.NativeEndian.AppendUint64(nil, rng.Uint64())
	if _, err := mem.WriteAt(b[:1+rng.IntN(8)], int64(f.addr)+at); err != nil {
		t.Fatal(err)
	}
}

// TestProof: a listener gets only requests that come with the token of the Retry that
// answers them. Clients connect to it whatever is lost.
func TestProof(t *testing.T) {
	const forged = 100
	seeds(t, 20, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: float64(seed%2) * 0.2})
		var backlog func() int
		over, accepted := false, 0
		station := w.node("server", nil, func(n *vipl.NIC) error {
			backlog = func() int { return n.Snapshot().Listeners[0].Backlog }
			return takeProven(n, &over, &accepted)
		})
		to := ethertype.Addr{MAC: station.MAC(), Port: service}
		p := newPackets(w, "stranger")
		stormed := false
		w.Go("stranger", func() {
			p.pause(10 * time.Millisecond) // until the server listens
			from := ethertype.Addr{MAC: p.MAC(), Port: 7}
			for p.token == 0 {
				for i := range forged {
					p.throw(asks(to, stranded(i), uint32(i+1), 0))
				}
				p.throw(asks(to, from, 1, 0))
				p.pause(10 * time.Millisecond)
			}
			if accepted+backlog() > 0 {
				w.errs = append(w.errs, fmt.Errorf("%d requests without a token were taken", accepted+backlog()))
			}
			for accepted == 0 { // it may be lost
				p.throw(asks(to, from, 1, p.token))
				p.pause(10 * time.Millisecond)
			}
			for stormed = true; !over; p.pause(10 * time.Millisecond) {
			}
		})
		w.node("client", nil, func(n *vipl.NIC) error {
			defer func() { over = true }()
			for !stormed {
				driveFor(n, time.Millisecond)
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			return v.Connect(bg, to, nil)
		})
		err := w.run()
		if err == nil && accepted != 2 {
			err = fmt.Errorf("%d requests were accepted, want the stranger's and the client's", accepted)
		}
		return err
	})
}

// takeProven accepts whoever has proven its address, while over is not set.
func takeProven(n *vipl.NIC, over *bool, accepted *int) error {
	l, err := n.Listen(service)
	if err != nil {
		return err
	}
	for !*over {
		driveFor(n, time.Millisecond)
		r, err := l.Poll()
		if err != nil {
			continue
		}
		v, err := n.CreateVI(nil, nil, nil)
		if err == nil {
			err = r.AcceptStart(v)
		}
		if err != nil {
			return err
		}
		*accepted++
	}
	return nil
}

// fence is how many bytes lie before each of fenced buffers and behind the last:
// they are registered, but posted by nobody and open to no peer.
const fence = 4096

// fencePattern fills them.
var fencePattern = bytes.Repeat([]byte{0xD7}, fence)

// fenced is buffers with a fence around each.
type fenced struct {
	*buffers
	all []byte
}

func newFenced(n *vipl.NIC, count, size int) (f fenced, err error) {
	f.all = make([]byte, fence+count*(size+fence))
	f.buffers = &buffers{mem: f.all[fence:], descs: make([]vipl.Descriptor, count), size: size + fence}
	if f.h, err = n.RegisterMem(f.all, nil); err != nil {
		return f, err
	}
	for i := range f.descs {
		f.descs[i].Segs = []vipl.Segment{{Data: f.data(i)[:size:size], Handle: f.h}}
		f.descs[i].Context = i
	}
	for i := range count + 1 {
		copy(f.all[i*f.size:], fencePattern)
	}
	return f, nil
}

// intact returns an error if a fence was written to.
func (f fenced) intact() error {
	for i := range len(f.descs) + 1 {
		for at, b := range f.all[i*f.size:][:fence] {
			if b != fencePattern[at] {
				return fmt.Errorf("byte %d of the %d before posted buffer %d was written to: %#x", at, fence, i, b)
			}
		}
	}
	return nil
}
