package shm_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

var seedFlag = flag.Uint64("shm.seed", 1, "seed of the random tests")

// TestScribble has a peer write anything anywhere into the shared memory under
// traffic: nothing may panic or read outside, each view is as long as a frame
// can be, and rings that cannot be believed are torn down with a reason.
func TestScribble(t *testing.T) {
	const each = 25 // mutations a round
	rounds := 1_000_000 / each
	if !need.Full() {
		rounds = 2000
	}
	t.Logf("replay: -shm.seed=%d", *seedFlag)
	rng := rand.New(rand.NewPCG(*seedFlag, 0))
	a, b := open(t, shm.Config{Ring: 512 << 10}), open(t, shm.Config{})
	broken := 0
	a.OnDeparture(func(ports transport.PortRange, why error) {
		if errors.Is(why, shm.ErrBroken) {
			broken++
		}
		if ports != b.Info().Ports {
			t.Errorf("departure of %v", ports)
		}
	})
	views := make([][]byte, transport.MaxBatch)
	hello, back := frame(a, b, "hello"), frame(b, a, strings.Repeat("x", 3000))
	long := frame(a, b, strings.Repeat("y", 30_000))
	sum := byte(0)
	for i := range rounds {
		mem := b.Shared()
		for end := a.Now() + int64(10*time.Second); mem == nil || a.Peers() == 0; mem = b.Shared() {
			if a.Now() > end {
				t.Fatalf("round %d: no new rings", i)
			}
			a.Send([]transport.Frame{hello})
			a.Recv(views)
			b.Recv(views)
			runtime.Gosched()
		}
		for range each {
			scribble(rng, mem)
		}
		if i%3 == 0 {
			b.Send([]transport.Frame{back})
		}
		if i%5 == 0 {
			a.Send([]transport.Frame{hello, long})
		}
		n, err := a.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range views[:n] {
			if len(v) < 62 || len(v) > 65549 {
				t.Fatalf("round %d: a frame of %d bytes", i, len(v))
			}
			sum += v[0] + v[len(v)-1]
		}
		if i%7 == 0 {
			b.Recv(views)
		}
	}
	if broken == 0 {
		t.Errorf("no ring was found to be broken (%d)", sum)
	}
	t.Logf("%d rings broken; %+v", broken, a.Stats())
}

// scribble changes up to eight bytes, often where they hurt.
func scribble(rng *rand.Rand, mem []byte) {
	at := rng.IntN(len(mem) - 8)
	switch rng.IntN(4) {
	case 0:
		at = rng.IntN(2) * 1024 // what the reader has freed
	case 1:
		at = rng.IntN(2)*1024 + 256 // whether it sleeps
	case 2:
		at = at &^ 63 // the start of a record
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], rng.Uint64())
	copy(mem[at:], b[:1+rng.IntN(8)])
}

// strangeCall is a call with something wrong about it.
type strangeCall struct {
	length, ring int64
	seals, files int
	text, from   string
	ports        uint32
	stream       int
}

// TestCallers: calls with a file that cannot be trusted, without one, with
// nonsense, or in the name of others are refused; honest ones go on working.
func TestCallers(t *testing.T) {
	a, b := open(t, shm.Config{}), open(t, shm.Config{})
	const size, all = 1 << 20, unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	for what, c := range map[string]strangeCall{
		"unsealed":       {length: 65536 + 2*size, ring: size, files: 2},
		"may shrink":     {length: 65536 + 2*size, ring: size, files: 2, seals: unix.F_SEAL_GROW | unix.F_SEAL_SEAL},
		"short":          {length: 65536, ring: size, files: 2, seals: all},
		"odd":            {length: 65536 + 2*size, ring: size - 1, files: 2, seals: all},
		"huge":           {length: 1 << 40, ring: 1 << 31, files: 2, seals: all},
		"tiny":           {length: 65536 + 2*64, ring: 64, files: 2, seals: all},
		"read-only":      {length: 65536 + 2*size, ring: size, files: 2, seals: all | unix.F_SEAL_WRITE},
		"no files":       {ring: size},
		"one file":       {length: 65536 + 2*size, ring: size, files: 1, seals: all},
		"other hello":    {length: 65536 + 2*size, ring: size, files: 2, seals: all, text: "bobshm99"},
		"shortened":      {length: 65536 + 2*size, ring: size, files: 2, seals: all, text: "bob"},
		"not the stream": {length: 65536 + 2*size, ring: size, files: -2, seals: all},
		"other ports":    {length: 65536 + 2*size, ring: size, files: 2, seals: all, ports: 1024<<16 | 2047},
		"from port 0":    {length: 65536 + 2*size, ring: size, files: 2, seals: all, ports: 62000},
		"no ports":       {length: 65536 + 2*size, ring: size, files: 2, seals: all, ports: 62000<<16 | 61440},
		"other stream":   {length: 65536 + 2*size, ring: size, files: 2, seals: all, stream: unix.SOCK_SEQPACKET},
		"60 as 060":      {length: 65536 + 2*size, ring: size, files: 2, seals: all, from: "060"},
		"60 as +60":      {length: 65536 + 2*size, ring: size, files: 2, seals: all, from: "+60"},
	} {
		c.make(t, a, what)
	}
	pump(t, b, a, 1, frame(b, a, "honest"))
	if a.Peers() != 1 {
		t.Errorf("%d peers, want the honest one", a.Peers())
	}
}

// make calls a, and wants no answer.
func (c strangeCall) make(t *testing.T, a *shm.Link, what string) {
	t.Helper()
	to := a.Address(fmt.Sprint(a.Info().Ports.Lo / 1024))
	c.from, c.ports = cmp.Or(c.from, "60"), cmp.Or(c.ports, 61440<<16|62000)
	caller, err := net.ListenUnixgram("unixgram", a.Address(c.from))
	if err != nil {
		t.Fatal(what, err)
	}
	hello := helloOf(c.ports, uint32(c.ring))
	if c.text != "" {
		hello = append([]byte(c.text), hello[8:]...)
	}
	fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, cmp.Or(c.stream, unix.SOCK_STREAM)|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Ftruncate(fd, c.length), setSeals(fd, c.seals)); err != nil {
		t.Fatal(what, err)
	}
	files := []int{pair[1], fd, pair[1]}
	if c.files < 0 {
		files[0] = fd
	}
	if _, _, err := caller.WriteMsgUnix(hello, unix.UnixRights(files[:max(c.files, -c.files)]...), to); err != nil {
		t.Fatal(what, err)
	}
	for _, f := range []int{pair[1], fd} {
		unix.Close(f)
	}
	if n, err := unix.Read(pair[0], make([]byte, 64)); n > 0 {
		t.Errorf("%s: the call was answered: %d, %v", what, n, err)
	}
	unix.Close(pair[0])
	caller.Close()
}

// helloOf returns a hello from ports, the lower one in the upper half.
func helloOf(ports, ring uint32) []byte {
	hello := binary.BigEndian.AppendUint64([]byte("bobshm03"), 12345)
	hello = binary.BigEndian.AppendUint32(hello, ports)
	hello = binary.BigEndian.AppendUint32(hello, ring)
	return binary.BigEndian.AppendUint64(hello, 0) // no address
}

func setSeals(fd, seals int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return err
}

// departure waits until a hears of one.
func departure(t *testing.T, a *shm.Link, why *error) {
	t.Helper()
	for end := a.Now() + int64(10*time.Second); ; {
		a.Recv(make([][]byte, 4))
		if *why != nil {
			return
		}
		if err := a.Wait(end); err != nil || a.Now() > end {
			t.Fatalf("nobody departed (%v)", err)
		}
	}
}

// TestKilled: a process that is killed while it has ports and rings leaves
// nothing: its peer is told, though it waits, and the ports are free.
func TestKilled(t *testing.T) {
	for _, role := range []string{"Echo", "Wait", "Idle"} {
		a := open(t, shm.Config{})
		c := start(t, role)
		f := c.frame(a, 100)
		if role == "Idle" {
			a.Send([]transport.Frame{f})
			for end := a.Now() + int64(10*time.Second); a.Peers() == 0 && a.Now() < end; {
				a.Wait(a.Now() + int64(time.Millisecond))
			}
		} else {
			pump(t, a, a, 1, f)
		}
		var why error
		a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
		if err := c.Process.Signal(unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if departure(t, a, &why); !errors.Is(why, shm.ErrGone) {
			t.Errorf("%s: departure: %v", role, why)
		}
		c.Wait() // now all its descriptors are closed
		ports := transport.PortRange{Lo: c.info.Ports.Lo, Hi: c.info.Ports.Lo + 10}
		again := open(t, shm.Config{Ports: ports})
		pump(t, a, again, 1, frame(a, again, "again"))
		again.Close()
		a.Close()
	}
}

// held counts what a process has that could leak.
func held(t *testing.T) (fds, mappings, goroutines int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return len(list), strings.Count(string(maps), "memfd:bobnet"), runtime.NumGoroutine()
}

// TestNoLeak: links come and go beside one that stays.
func TestNoLeak(t *testing.T) {
	cycles := 1000
	if !need.Full() {
		cycles = 100
	}
	a := open(t, shm.Config{})
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	pump(t, a, a, 1, frame(a, a, "self"))
	var before [3]int
	for i := range cycles {
		b := open(t, shm.Config{})
		pump(t, a, b, 1, frame(a, b, "to"))
		pump(t, b, a, 1, frame(b, a, "fro"))
		b.Close()
		why = nil
		departure(t, a, &why)
		if i == 10 {
			before[0], before[1], before[2] = held(t)
		}
	}
	var after [3]int
	for end := a.Now() + int64(10*time.Second); a.Now() < end; runtime.Gosched() { // goroutines end in their own time
		if after[0], after[1], after[2] = held(t); after[0] <= before[0]+2 && after[1] <= before[1] && after[2] <= before[2] {
			return
		}
	}
	t.Errorf("descriptors, mappings, goroutines: %v after 10 cycles, %v after %d", before, after, cycles)
}

// TestLies: each word that says where something lies is checked.
func TestLies(t *testing.T) {
	const size, control = 1 << 20, 64 << 10
	u64 := func(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }
	for what, lie := range map[string]struct {
		at   int
		word []byte
		laps int // of the ring before
	}{
		"freed what is not written": {at: 0, word: u64(1 << 40)},
		"freed a part of a line":    {at: 0, word: u64(7)},
		"freed less than before":    {at: 0, word: u64(0), laps: 2},
		"a frame over the limit":    {at: control + 2*size, word: u64(0xffff_ffff_ffff_ffff)},
		"a frame for nobody":        {at: control + 2*size, word: u64(0x0001_0001_0001_0001)},
	} {
		a, b := open(t, shm.Config{Ring: size}), open(t, shm.Config{})
		pump(t, a, b, 1, frame(a, b, "hello"))
		var why error
		a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
		long := frame(a, b, strings.Repeat("z", 60_000))
		for range lie.laps * size / 60_000 {
			pump(t, a, b, 1, long)
		}
		copy(b.Shared()[lie.at:], lie.word)
		for i := 0; i < 100 && why == nil; i++ { // until the ring is full
			a.Send([]transport.Frame{long})
			a.Recv(make([][]byte, 1))
		}
		if !errors.Is(why, shm.ErrBroken) {
			t.Errorf("%s: departure: %v, want ErrBroken", what, why)
		}
		pump(t, a, b, 1, frame(a, b, "again"))
		a.Close()
		b.Close()
	}
}
