package vipl_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// forbidEnv tells the role lock to give up the right to lock memory.
const forbidEnv = "BOBNET_TEST_VIPL_FORBID"

// TestMemoryWithoutLock: a process without the right to lock memory allocates
// some and sends messages from there, and the log says once that it is not
// locked, and the remedy. One that may says nothing.
func TestMemoryWithoutLock(t *testing.T) {
	for _, forbid := range []string{"", "yes"} {
		t.Run("forbidden="+forbid, func(t *testing.T) {
			c := play(t, "lock", (*exec.Cmd).Start, forbidEnv+"="+forbid)
			said, err := io.ReadAll(c.out)
			if err != nil {
				t.Fatal(err)
			}
			text := string(said)
			if !strings.HasSuffix(text, "messages: 2\n") {
				t.Fatalf("the process said:\n%s", text)
			}
			locked := !strings.Contains(text, "VmLck:\t       0 kB")
			if locked && forbid != "" {
				t.Fatalf("the memory is locked all the same:\n%s", text)
			}
			want := 1
			if locked {
				want = 0
			}
			for _, words := range []string{"registered memory is not locked", "ulimit -l unlimited"} {
				if n := strings.Count(text, words); n != want {
					t.Errorf("%q stands %d times, want %d:\n%s", words, n, want, text)
				}
			}
		})
	}
}

// lockRole sends two messages between VIs of one NIC, from memory of the
// library's.
func lockRole() error {
	runtime.LockOSThread() // which has the rights, and allocates
	if os.Getenv(forbidEnv) != "" {
		if err := forbidLock(); err != nil {
			return err
		}
	}
	n, err := vipl.Open(context.Background(), &vipl.Config{Driver: "udp", Interface: vethtest.Loopback(51), Logger: slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		return err
	}
	for range 2 {
		a, b, err := meet([2]*vipl.NIC{n, n})
		if err == nil {
			err = oneMessage(a, b)
		}
		if err != nil {
			return err
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "VmLck:")
	line, _, _ := strings.Cut(rest, "\n")
	n.FlushLog() // which goes to stdout, too
	fmt.Printf("VmLck:%s\nmessages: 2\n", line)
	return nil
}

// forbidLock takes the right to lock memory from the calling thread.
func forbidLock() error {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}); err != nil {
		return err
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	return unix.Capset(&head, &sets[0])
}

// TestAllocTooMuch: memory that the kernel does not give is an error that says what may limit it.
func TestAllocTooMuch(t *testing.T) {
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: sim.New(sim.Options{}).Station("")})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	if _, _, err := nic.AllocMem(1<<50, nil); !errors.Is(err, vipl.ErrResource) || !strings.Contains(err.Error(), "ulimit -v") {
		t.Errorf("got %v, want an error that names the limits", err)
	}
}

// TestAllocMemHugePages looks up in the kernel's own books whether it has been
// asked for huge pages, for regions of a huge page and more only.
func TestAllocMemHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("the kernel has no transparent huge pages:", err)
	}
	la, _ := memPair(1500)
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: la, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	for size, want := range map[int]bool{1 << 20: false, 2 << 20: true, 5<<20 + 1: true} {
		buf, h, err := nic.AllocMem(size, nil)
		if err != nil {
			t.Fatal(err)
		}
		buf[0], buf[size-1] = 1, 1
		if got := slices.Contains(mappingFlags(t, vipl.VirtualAddress(buf)), "hg"); got != want {
			t.Errorf("huge pages asked for %d bytes: %v, want %v", size, got, want)
		}
		if err := nic.DeregisterMem(h); err != nil {
			t.Fatal(err)
		}
	}
}

// mappingFlags returns the VmFlags that /proc/self/smaps has for addr.
func mappingFlags(t *testing.T, addr uint64) []string {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi uint64
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= addr && addr < hi
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && inside {
			return strings.Fields(flags)
		}
	}
	t.Fatalf("no mapping at %#x", addr)
	return nil
}

// TestOwnCopy: what the program does to the fields of a posted descriptor does not reach the engine.
func TestOwnCopy(t *testing.T) {
	d := newDuo(t, nil, nil)
	r := d.post(d.b, 1000)
	buf, h := d.buffer(d.na, 1000, nil)
	s := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}, HasImmediate: true, Immediate: 7}
	sent := d.links[1].tail
	if err := d.a.PostSend(s); err != nil {
		t.Fatal(err)
	}
	d.links[1].tail = sent // lost, so that the frame is built again from what is changed
	for _, x := range []*vipl.Descriptor{r, s} {
		x.Segs, x.Op, x.Remote = nil, vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: 1, Handle: 2}
		x.HasImmediate, x.Immediate, x.AckNow, x.Fence = false, 9, true, true
		x.Status, x.Length = vipl.StatusFlushed, 1
	}
	for i := 0; d.b.Snapshot().Receives == 0 && i < 100; i++ {
		d.run()
	}
	got, err := d.b.RecvDone()
	d.took(got, err, r, vipl.StatusOpReceive|vipl.StatusImmediate)
	if r.Length != 1000 || !r.HasImmediate || r.Immediate != 7 {
		t.Errorf("received %d bytes, immediate data %t %d", r.Length, r.HasImmediate, r.Immediate)
	}
	d.run()
	got, err = d.a.SendDone()
	d.took(got, err, s, vipl.StatusOpSend|vipl.StatusImmediate)
	if s.HasImmediate || s.Immediate != 9 {
		t.Errorf("the taken send has immediate data %t %d, not what the program has set", s.HasImmediate, s.Immediate)
	}
	d.alive()
}

// TestAlteredSend: sends that are corked, or are sent again, are shortened
// meanwhile by their program. That ends the connection, and the descriptor, an
// asynchronous error and both sides say why.
func TestAlteredSend(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int // the last one is altered
		begin func(d *duo, size int) *vipl.Descriptor
	}{
		{"Copied", []int{10, 10, 10, 10}, nil},
		{"Packed", []int{600, 600, 600, 600}, nil},
		{"Fragments", []int{10_000}, nil},
		{"SentAgain", []int{1000}, nil},
		{"SentAgainShort", []int{100}, nil},
		{"Write", []int{1000}, func(d *duo, size int) *vipl.Descriptor {
			_, h := d.buffer(d.nb, size, &vipl.MemAttributes{EnableRDMAWrite: true})
			info, err := d.nb.QueryMem(h)
			if err != nil {
				d.t.Fatal(err)
			}
			return d.write(d.a, size, info.Addr, h, false)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			attr := &vipl.Attributes{EnableRDMAWrite: true}
			d := newDuo(t, attr, attr)
			for range c.sizes {
				d.post(d.b, 10_000)
			}
			told := watch(t, d.na)
			sent := d.links[1].tail
			var last *vipl.Descriptor
			for _, size := range c.sizes {
				if c.begin != nil {
					last = c.begin(d, size)
				} else {
					last = d.send(d.a, size)
				}
			}
			if len(c.sizes) == 1 {
				d.links[1].tail = sent // lost
			}
			last.Segs[0].Data = nil
			for i := 0; d.a.State() == vipl.StateConnected && i < 100; i++ {
				d.run()
			}
			d.run()
			d.ended(vipl.ErrArgument)
			for range c.sizes[1:] {
				d.a.SendDone()
			}
			got, err := d.a.SendDone()
			if got != last || !errors.Is(err, vipl.ErrDescriptor) || got.Status&vipl.StatusProtectionError == 0 {
				t.Errorf("took %v, %v", got.Status, err)
			}
			op := last.Status & vipl.StatusOpMask
			told.want(vipl.AsyncError{VI: d.a, Descriptor: last, Op: op, Resource: vipl.ResourceDescriptor, Code: vipl.CodeCompProt, Err: vipl.ErrArgument},
				lost(d.a, vipl.ErrArgument))
		})
	}
}

// TestAlteredReceive: receives are shortened by their program while they are
// posted. Nothing is written elsewhere, and the descriptor says why.
func TestAlteredReceive(t *testing.T) {
	for _, last := range []int{0, 3} {
		t.Run(fmt.Sprint(last), func(t *testing.T) { alteredReceive(t, last) })
	}
}

func alteredReceive(t *testing.T, last int) {
	eachLevel(t, levels, func(t *testing.T, d *duo, level reliability.Level) {
		told := watch(t, d.nb)
		var receives []*vipl.Descriptor
		for i := range 4 { // of whose messages the last two share a frame
			receives = append(receives, d.post(d.b, 1000))
			d.send(d.a, 10+i)
		}
		r := receives[last]
		r.Segs[0].Data = nil
		d.run()
		for _, x := range receives[:last] {
			got, err := d.b.RecvDone()
			d.took(got, err, x, vipl.StatusOpReceive)
		}
		got, err := d.b.RecvDone()
		d.took(got, err, r, vipl.StatusOpReceive|vipl.StatusLengthError|vipl.StatusProtectionError)
		altered := vipl.AsyncError{VI: d.b, Descriptor: r, Op: vipl.StatusOpReceive, Resource: vipl.ResourceDescriptor, Code: vipl.CodeCompProt, Err: vipl.ErrArgument}
		if level.Reliable() {
			d.ended(vipl.ErrTooLong)
			told.want(altered, lost(d.b, vipl.ErrTooLong))
		} else {
			d.alive()
			told.want(altered)
		}
	})
}

// TestAlteredRead is the same for a read.
func TestAlteredRead(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 4)
	told := watch(t, d.na)
	_, from := d.source(d.nb, 1, 1000)
	r := d.read(d.a, 1000, from)
	r.Segs[0].Data = nil
	d.run()
	d.ended(vipl.ErrArgument)
	got, err := d.a.SendDone()
	d.took(got, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed|vipl.StatusProtectionError)
	told.want(vipl.AsyncError{VI: d.a, Descriptor: r, Op: vipl.StatusOpRDMARead, Resource: vipl.ResourceDescriptor, Code: vipl.CodeCompProt, Err: vipl.ErrArgument},
		lost(d.a, vipl.ErrArgument))
}
