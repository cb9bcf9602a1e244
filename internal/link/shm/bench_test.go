package shm_test

import (
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Benchmarks report the median over samples of sampleRounds rounds besides the
// mean, because the mean is of no use while something else runs.
//
// The baselines of the benchmarks: two processes that share memory and nothing
// else. They are in one binary with the link's, to be run together:
//
//	go test ./internal/link/shm -run '^$' -bench . -count 5

const (
	sharedSize   = 2 << 20
	sampleRounds = 64
)

// medians collects samples.
type medians struct {
	samples []float64 // ns a round
	rounds  int
	began   time.Time
}

// round counts a round.
func (m *medians) round() {
	if m.rounds%sampleRounds == 0 {
		now := time.Now()
		if m.rounds > 0 {
			m.samples = append(m.samples, float64(now.Sub(m.began))/sampleRounds)
		}
		m.began = now
	}
	m.rounds++
}

// report reports the median, scaled, if there are samples.
func (m *medians) report(b *testing.B, unit string, scale func(ns float64) float64) {
	if slices.Sort(m.samples); len(m.samples) > 0 {
		b.ReportMetric(scale(m.samples[len(m.samples)/2]), unit)
	}
}

func half(ns float64) float64 { return ns / 2 }
func rate(ns float64) float64 { return chunk * 1e3 / ns }

// share maps the memory that a child gets as its first file.
func share(fd int) unsafe.Pointer {
	p, err := unix.MmapPtr(fd, 0, nil, sharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		panic(err)
	}
	return p
}

// newShared makes it.
func newShared(b *testing.B) (*os.File, unsafe.Pointer) {
	fd, err := unix.MemfdCreate("bench", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, sharedSize)
	}
	if err != nil {
		b.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "bench")
	b.Cleanup(func() { f.Close() })
	return f, share(fd)
}

func words(p unsafe.Pointer) (ping, pong *atomic.Uint64) {
	return (*atomic.Uint64)(p), (*atomic.Uint64)(unsafe.Add(p, 256))
}

// lineRole answers the cache line that bounces.
func lineRole() {
	ping, pong := words(share(3))
	for i := uint64(1); ; i++ {
		await(ping, i)
		pong.Store(i)
	}
}

func await(w *atomic.Uint64, i uint64) {
	for spins := 1; w.Load() < i; spins++ {
		if spins&(1<<16-1) == 0 {
			unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}

// BenchmarkLine is the bare ping-pong of a shared cache line: ns one way.
func BenchmarkLine(b *testing.B) {
	f, p := newShared(b)
	start(b, "Line", f)
	ping, pong := words(p)
	turn := uint64(0)
	var m medians
	for b.Loop() {
		m.round()
		turn++
		ping.Store(turn)
		await(pong, turn)
	}
	m.report(b, "p50-ns/way", half)
}

// BenchmarkPingPong is the link's, with 64 bytes of payload.
func BenchmarkPingPong(b *testing.B) {
	for role, sleep := range map[string]bool{"Echo": false, "Wait": true} {
		b.Run(role, func(b *testing.B) {
			l := open(b, shm.Config{})
			c := start(b, role)
			batch, views := []transport.Frame{c.frame(l, 64)}, make([][]byte, 4)
			var m medians
			for b.Loop() {
				m.round()
				if _, err := l.Send(batch); err != nil {
					b.Fatal(err)
				}
				for n := 0; n == 0; {
					for spins := 1; !l.Ready(); spins++ {
						if sleep {
							l.Wait(transport.Forever)
						} else if spins&(1<<16-1) == 0 {
							runtime.Gosched()
						}
					}
					n, _ = l.Recv(views)
				}
			}
			m.report(b, "p50-ns/way", half)
		})
	}
}

const (
	chunk  = 64 << 10
	chunks = 8
)

// copyRole takes chunks that are handed over, by one copy each.
func copyRole() {
	p := share(3)
	ping, pong := words(p)
	dst := make([]byte, chunk)
	for i := uint64(1); ; i++ {
		await(ping, i)
		copy(dst, unsafe.Slice((*byte)(unsafe.Add(p, chunk*(1+i%chunks))), chunk))
		pong.Store(i)
	}
}

// BenchmarkHandOff hands chunks over that the sender has written to, by a word
// a cache line, and that the receiver copies: one copy.
func BenchmarkHandOff(b *testing.B) {
	f, p := newShared(b)
	start(b, "Copy", f)
	ping, pong := words(p)
	b.SetBytes(chunk)
	turn := uint64(0)
	var m medians
	for b.Loop() {
		m.round()
		turn++
		if turn > chunks-1 {
			await(pong, turn-(chunks-1))
		}
		at := unsafe.Slice((*uint64)(unsafe.Add(p, chunk*(1+turn%chunks))), chunk/8)
		for i := 0; i < len(at); i += 8 {
			at[i] = turn
		}
		ping.Store(turn)
	}
	await(pong, turn)
	m.report(b, "p50-MB/s", rate)
}

// BenchmarkStream sends frames with 64 KiB of payload less the header one way,
// which both sides copy. The sender goes on when the ring has room.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{512 << 10, 1 << 20, 2 << 20, 4 << 20} {
		b.Run(byteSize(size), func(b *testing.B) {
			l := open(b, shm.Config{Ring: size})
			c := start(b, "Sink")
			payload := make([]byte, chunk-128)
			head := c.frame(l, 0)
			batch := []transport.Frame{{Head: head.Head, Body: [][]byte{payload}}}
			for l.Stats().TxFrames == 0 { // until the child has answered
				l.Send([]transport.Frame{head})
				l.Wait(l.Now() + int64(time.Millisecond))
			}
			b.SetBytes(chunk)
			var m medians
			for b.Loop() {
				m.round()
				for drops := l.Stats().TxDrops; ; drops = l.Stats().TxDrops {
					if l.Send(batch); l.Stats().TxDrops == drops {
						break
					}
				}
			}
			m.report(b, "p50-MB/s", rate)
		})
	}
}

func byteSize(n int) string {
	if n < 1<<20 {
		return string(rune('0'+n>>10/100)) + "00KiB"
	}
	return string(rune('0'+n>>20)) + "MiB"
}
