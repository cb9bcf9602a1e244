package splitc_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInterfaceGone: on every layer the waits of a rank end when its interface is gone: those
// that block at that moment, and later ones.
func TestInterfaceGone(t *testing.T) {
	for _, layer := range splitc.Layers() {
		t.Run(layer, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			var nics [2]*vipl.NIC
			for side := range nics {
				if err := p.In(side, func() (err error) {
					nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, WireOnly: true})
					return err
				}); err != nil {
					t.Fatal(err)
				}
				defer nics[side].Close()
			}
			ready, ended := make(chan error), make(chan error)
			for rank, nic := range nics {
				go func() {
					w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: fmt.Sprint(t.Name(), os.Getpid()), Rank: rank, Size: 2, NIC: nic}, Layer: layer, HeapSize: 1 << 20})
					var a splitc.Array[int64]
					if err == nil {
						a, err = splitc.AllSpreadMalloc[int64](bg, w, 2, 8)
					}
					if ready <- err; err == nil {
						ended <- goneWaits(w, a, rank)
					}
				}()
			}
			if err := errors.Join(<-ready, <-ready); err != nil {
				t.Fatal(err)
			}
			if err := p.Delete(); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(<-ended, <-ended); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// goneWaits waits in all ways, beginning with another one on each rank.
func goneWaits(w *splitc.World, a splitc.Array[int64], rank int) error {
	there := a.On(1 - rank)
	waits := []struct {
		name string
		wait func() error
	}{
		{"Barrier", func() error { return w.Barrier(bg) }},
		{"StoreSync", func() error { return w.StoreSync(bg, 8) }},
		{"Read", func() error { _, err := splitc.Read(bg, w, there); return err }},
		{"Write", func() error { return splitc.Write(bg, w, there, 1) }},
		{"FetchAdd", func() error { _, err := splitc.FetchAdd(bg, w, there, 1); return err }},
		{"AllStoreSync", func() error { return w.AllStoreSync(bg) }},
		{"BulkRead", func() error { return splitc.BulkRead(bg, w, make([]int64, 4), there) }},
		{"AllSpreadMalloc", func() error { _, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 8); return err }},
	}
	var errs []error
	for i := range waits {
		x := waits[(i+rank)%len(waits)]
		if err := x.wait(); !errors.Is(err, transport.ErrGone) {
			errs = append(errs, fmt.Errorf("rank %d: %s: %v, want ErrGone", rank, x.name, err))
		}
	}
	return errors.Join(errs...)
}
