package shared

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBell: of two mappings of one bell, one sleeps until the other rings, whatever the order.
func TestBell(t *testing.T) {
	mine, fd, err := New(4096)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := Map(fd, 4096)
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 1000
	there, back := [2]*Bell{NewBell(mine, 0), NewBell(theirs, 0)}, [2]*Bell{NewBell(mine, 512), NewBell(theirs, 512)}
	hear := func(l *Bell, k int) {
		for {
			for i := range Words {
				if bits := l.Take(i); bits != 0 {
					if i != k/32 || bits != 1<<(k%32) {
						t.Errorf("word %d has %#x, want thing %d", i, bits, k)
					}
					return
				}
			}
			l.Sleep(time.Hour)
		}
	}
	var other sync.WaitGroup
	other.Go(func() {
		for n := range rounds {
			hear(there[1], n%Bits)
			back[1].Ring(n % Bits)
		}
	})
	for n := range rounds {
		there[0].Ring(n % Bits)
		hear(back[0], n%Bits)
	}
	other.Wait()
}

// TestWake: Wake ends the sleep that comes, and only that.
func TestWake(t *testing.T) {
	m, fd, err := New(4096)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	l := NewBell(m, 0)
	l.Wake()
	l.Sleep(time.Hour)
	if l.woken.Load() || l.Ready() {
		t.Error("the bell is still woken, or ready")
	}
}

// TestWakeFew: a call wakes a few threads, however many sleep there.
func TestWakeFew(t *testing.T) {
	const sleepers = 4 * futexSome
	var w atomic.Uint32
	var begun, awake atomic.Int32
	var all sync.WaitGroup
	for range sleepers {
		all.Go(func() {
			for begun.Add(1); w.Load() == 0; {
				sleep(&w, 0, int64(time.Hour))
			}
			awake.Add(1)
		})
	}
	for begun.Load() < sleepers {
		runtime.Gosched()
	}
	for most := 0; most < futexSome; { // some may not sleep yet; those that wake sleep again
		if most = max(most, wake(&w)); most > futexSome {
			t.Fatalf("a call wakes %d threads, want %d at the most", most, futexSome)
		}
	}
	for w.Store(1); awake.Load() < sleepers; runtime.Gosched() {
		wake(&w)
	}
	all.Wait()
}

// TestMap refuses files that another process could cut off, or that are too short.
func TestMap(t *testing.T) {
	open, err := unix.MemfdCreate("open", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(open)
	if err := unix.Ftruncate(open, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := Map(open, 4096); err == nil {
		t.Error("a file without seals is mapped")
	}
	m, fd, err := New(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := Map(fd, 8192); err == nil {
		t.Error("a file of 4096 bytes is mapped as 8192")
	}
	if err := unix.Ftruncate(fd, 0); err == nil {
		t.Error("the file is cut off")
	}
	Store(m.Bytes(), 4, 0x01020304)
	if b := m.Bytes()[4:8]; b[0] != 4 || b[3] != 1 || Load(m.Bytes(), 4) != 0x01020304 {
		t.Errorf("a word lies as % x", b)
	}
	m.Retire()
	if m.Bytes()[4] != 0 {
		t.Error("retired memory has its contents")
	}
}
