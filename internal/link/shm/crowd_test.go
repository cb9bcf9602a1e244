package shm_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"golang.org/x/sys/unix"
)

// TestCallInWait has a caller come, of whom there are as many as can be waited for
// already, when a Wait has just chosen how to sleep.
func TestCallInWait(t *testing.T) {
	a := open(t, shm.Config{})
	const each = 4 // calls of one stranger, which have room at a time
	var s *stranger
	var file int
	call := func() {
		n := a.Peers()
		if n%each == 0 {
			s = newStranger(t, a, 63-n/each)
		}
		if n == 0 {
			file = s.file()
			t.Cleanup(func() { unix.Close(file) })
		}
		fd, err := unix.Dup(file)
		if err != nil {
			t.Fatal(err)
		}
		c := s.call(a, fd)
		if s.answer(c); !c.answered {
			t.Fatalf("call %d was not answered", n)
		}
		until(t, "the call", func() bool { return a.Peers() == n+1 })
	}
	for range shm.FutexPeers {
		call()
	}
	shm.BeforeSleep(call, func() {
		end := a.Now() + int64(10*time.Second)
		if err := a.Wait(end); err != nil || a.Now() >= end { // it looks again who there is
			t.Errorf("Wait = %v", err)
		}
	})
	if err := a.Wait(a.Now() + int64(time.Millisecond)); err != nil || a.Peers() != shm.FutexPeers+1 {
		t.Errorf("Wait = %v with %d peers", err, a.Peers())
	}
}

// TestViewsAfterClose: who is just reading a frame when the link is closed reads
// zeros at worst, however long that takes.
func TestViewsAfterClose(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	a := open(t, shm.Config{})
	s := newStranger(t, a, 60)
	from := a.Info()
	from.Ports = s.ports
	for _, frames := range [][][]byte{nil, {linktest.NewFrame(from, a.Info(), a.Info().Ports.Lo, []byte("hello"))}} {
		c := s.call(a, s.file(frames...)) // the second pair of rings is only for what it sends
		s.answer(c)
	}
	views := make([][]byte, 1)
	until(t, "the frame", func() bool { n, _ := a.Recv(views); return n == 1 })
	a.Close()
	for range 3 { // what is garbage is given back by then
		done := make(chan struct{})
		runtime.AddCleanup(new([64]byte), func(done chan struct{}) { close(done) }, done)
		runtime.GC()
		<-done
	}
	for i, octet := range views[0] {
		if octet != 0 {
			t.Fatalf("octet %d is %#x", i, octet)
		}
	}
	runtime.KeepAlive(a)
}
