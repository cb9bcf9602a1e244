package splitc_test

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// computingTimeout is how long a silent process is believed to be alive, and it is silent for
// three times as long.
const computingTimeout = 2 * time.Second

// TestComputingLive: a process that makes no call for several times as long as a silent one
// is believed to be alive, is not taken for dead, over any layer, and what others have asked
// of it is done in the end. Over RDMA that is so while it still computes.
func TestComputingLive(t *testing.T) {
	nics := linkNICs(t, "ring", func(_ int, l transport.Link) transport.Link { return l })
	layers := splitc.Layers()
	done := make(chan error, len(layers))
	for _, layer := range layers { // all at once
		go func() {
			if err := computing(nics, fmt.Sprint(t.Name(), layer, os.Getpid()), layer); err != nil {
				done <- fmt.Errorf("layer %s: %w", layer, err)
				return
			}
			done <- nil
		}()
	}
	for range layers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// computing runs a program of two processes, one of which computes.
func computing(nics [2]*vipl.NIC, name, layer string) error {
	var over atomic.Bool
	done := make(chan error, len(nics))
	for rank, nic := range nics {
		go func() {
			w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: name, Rank: rank, Size: 2, NIC: nic, PeerTimeout: computingTimeout}, Layer: layer, HeapSize: 1 << 20})
			if err == nil {
				if err = computes(w, &over); err == nil {
					err = w.Exit(bg)
				} else {
					w.Fail(err)
				}
			}
			done <- err
		}()
	}
	return errors.Join(<-done, <-done)
}

// computes is the program: process 1 computes until over.
func computes(w *splitc.World, over *atomic.Bool) error {
	const stores = 200 // more than there are credits
	a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, stores)
	if err == nil {
		err = w.Barrier(bg)
	}
	if err != nil {
		return err
	}
	if w.MyProc() == 1 {
		<-time.After(3 * computingTimeout) // leaves the processors to the other programs
		over.Store(true)
		if err := w.StoreSync(bg, 8*stores); err != nil {
			return err
		}
		return w.Barrier(bg)
	}
	if _, err := splitc.Read(bg, w, a.On(1)); err != nil {
		return err
	}
	if err := splitc.Write(bg, w, a.On(1), 1); err != nil {
		return err
	}
	if alone := !over.Load(); alone != (w.Layer() == "rdma") {
		return fmt.Errorf("a read and a write are complete while their target computes: %t", alone)
	}
	for i := range stores {
		if err := splitc.Store(bg, w, a.On(1).Add(i), 1); err != nil {
			return err
		}
	}
	return w.Barrier(bg)
}
