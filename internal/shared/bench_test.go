package shared

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkBell measures a ring there and one back between two threads, on one processor and on two, of which each
// sleeps until the other rings: what a program and the process that has its card pay at the least for a round trip
// if neither polls.
func BenchmarkBell(b *testing.B) {
	for cpus := 1; cpus <= min(2, runtime.NumCPU()); cpus++ {
		b.Run(fmt.Sprintf("processors=%d", cpus), func(b *testing.B) {
			m, fd, err := New(4096)
			if err != nil {
				b.Fatal(err)
			}
			unix.Close(fd)
			there, back := NewBell(m, 0), NewBell(m, 512)
			done := make(chan struct{})
			on := func(cpu int) {
				runtime.LockOSThread()
				var set unix.CPUSet
				set.Set(cpu)
				if err := unix.SchedSetaffinity(0, &set); err != nil {
					b.Error(err)
				}
			}
			go func() {
				defer close(done)
				on(cpus - 1) // the thread ends with the goroutine
				for {
					for there.Take(0) == 0 {
						there.Sleep(time.Second)
					}
					if back.Ring(0); there.Take(1) != 0 {
						return
					}
				}
			}()
			measured := make(chan struct{})
			go func() {
				defer close(measured)
				on(0)
				for b.Loop() {
					there.Ring(0)
					for back.Take(0) == 0 {
						back.Sleep(time.Second)
					}
				}
				there.Ring(32)
				there.Ring(0)
			}()
			<-measured
			<-done
		})
	}
}
