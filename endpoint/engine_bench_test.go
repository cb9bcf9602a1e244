package endpoint_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// BenchmarkEngine measures what a short request and its reply cost both sides
// together: one goroutine drives both, over shared memory, so that there is no
// system call and no waiting. The number is how many are under way.
func BenchmarkEngine(b *testing.B) {
	for _, size := range []int{16, 4096} {
		for _, window := range []int{1, 64} {
			b.Run(fmt.Sprintf("%d/%d", size, window), func(b *testing.B) { benchmarkEngine(b, size, window) })
		}
	}
}

func benchmarkEngine(b *testing.B, size, window int) {
	round := newEngine(b, size)
	round(1) // connects
	round(window)
	b.ReportAllocs()
	start := userTime()
	b.ResetTimer()
	for done := 0; done < b.N; done += window {
		round(window)
	}
	b.ReportMetric(float64(userTime()-start)/float64(b.N), "cpu-ns/request")
}

// newEngine returns what sends so many requests of a size, and has them answered.
func newEngine(t testing.TB, size int) (round func(n int)) {
	var bundles [2]*endpoint.Bundle
	var eps [2]*endpoint.Endpoint
	for i := range bundles {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			t.Fatal(err)
		}
		n, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nic, Credits: endpoint.Credits{Short: 64}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(); nic.Close() })
		bundles[i], _ = n.NewBundle(endpoint.Sequential)
		eps[i], _ = bundles[i].NewEndpoint()
		eps[i].SetTag(endpoint.TagAll)
	}
	replies := 0
	eps[1].SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
	eps[0].SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
	eps[0].Map(0, eps[1].Name(), endpoint.TagAll)
	args, data := make([]uint32, 4), make([]byte, size)
	send := func() error {
		if size <= 4*len(args) {
			return eps[0].Request(bg, 0, hEcho, args...)
		}
		return eps[0].RequestMedium(bg, 0, hEcho, data)
	}
	return func(n int) {
		for range n {
			if err := send(); err != nil {
				t.Fatal(err)
			}
		}
		for want := replies + n; replies < want; {
			look := (*endpoint.Bundle).Poll
			if n == 1 { // what one sends is all that the other waits for
				look = func(b *endpoint.Bundle) (int, error) { return b.WaitPoll(bg) }
			}
			for i := range bundles {
				if _, err := look(bundles[1-i]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestStreamAllocations: requests of a stream allocate nothing, whether they share
// envelopes or batches, nor do their replies and handlers.
func TestStreamAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: the race detector takes long to count what is counted without it, too")
	}
	for _, size := range []int{16, 1000, 4096} {
		round := newEngine(t, size)
		round(1)
		for range 100 {
			round(64)
		}
		if allocs := alloctest.PerRun(t, 100, func() { round(64) }); allocs != 0 {
			t.Errorf("%d B: %v allocations for 64 requests, want 0", size, allocs)
		}
	}
}

// userTime returns the processor time that the process has used, in nanoseconds.
func userTime() int64 {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
