package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// BenchmarkHostStream sends messages of 1 MiB from one NIC of a host to another
// one, a window of them at a time; compare with BenchmarkHandOff of
// internal/link/shm:
//
//	go test ./vipl ./internal/link/shm -run '^$' -bench 'HostStream|HandOff' -count 5
func BenchmarkHostStream(b *testing.B) {
	const size, depth = 1 << 20, 4
	var nics [2]*vipl.NIC
	for i := range nics {
		n, err := vipl.Open(b.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { n.Close() })
		nics[i] = n
	}
	from, to := join(b, nics, nil)
	tx, rx := descriptors(b, nics[0], depth, size), descriptors(b, nics[1], depth, size)
	for _, d := range rx {
		if err := to.PostRecv(d); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(size)
	b.ResetTimer()
	received, posted := make(chan error, 1), make(chan struct{}, b.N+depth)
	for range depth {
		posted <- struct{}{}
	}
	go func() {
		for i := range b.N {
			d, err := to.RecvWait(bg)
			if err == nil && i+depth < b.N {
				err = to.PostRecv(d)
			}
			if err != nil {
				received <- err
				close(posted)
				return
			}
			posted <- struct{}{}
		}
		received <- nil
	}()
	for i := range b.N {
		d := tx[i%depth]
		if i >= depth {
			var err error
			if d, err = from.SendWait(bg); err != nil {
				b.Fatal(err)
			}
		}
		<-posted
		if err := from.PostSend(d); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-received; err != nil {
		b.Fatal(err)
	}
	st := from.Snapshot()
	b.ReportMetric(float64(st.Retransmits)/float64(b.N), "retransmits/op")
}

// descriptors returns n descriptors, each with size bytes of registered memory.
func descriptors(b *testing.B, nic *vipl.NIC, n, size int) (ds []*vipl.Descriptor) {
	for range n {
		buf, mem, err := nic.AllocMem(size, nil)
		if err != nil {
			b.Fatal(err)
		}
		ds = append(ds, &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: mem}}})
	}
	return ds
}
