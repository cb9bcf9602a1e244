package splitc

import (
	"context"

	"github.com/bobnet-go/bobnet/splitc/internal/am"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/rdma"
	"github.com/bobnet-go/bobnet/splitc/internal/reliable"
	"github.com/bobnet-go/bobnet/splitc/internal/shm"
	"github.com/bobnet-go/bobnet/splitc/internal/unreliable"
)

// layers are the communication layers, by name.
var layers = map[string]layer.Open{
	"am":         am.Open,
	"rdma":       rdma.Open,
	"reliable":   reliable.Open,
	"shm":        shm.Open,
	"unreliable": unreliable.Open,
}

// hosts returns the host of each process for a layer that shares memory within a host, and nil for
// others. The result is the same in all processes.
func (w *World) hosts() []int {
	if w.cfg.Layer != "shm" || w.procs == 1 {
		return nil
	}
	return shm.Hosts(w.nic, w.member, w.procs)
}

// LayerStats are the counters of a communication layer.
type LayerStats = layer.Stats

// alone is the layer of a program of one process, which does not communicate.
type alone struct {
	heap  []byte
	count layer.Counters
}

func newAlone(size int) (*alone, error) {
	heap, err := layer.NewHeap(size)
	return &alone{heap: heap}, err
}

func (a *alone) Heap() []byte                { return a.heap }
func (a *alone) Direct(int) []byte           { return nil }
func (a *alone) Counters() *layer.Counters   { return &a.count }
func (a *alone) Poll() error                 { return nil }
func (a *alone) Wait(context.Context) error  { return ErrNever }
func (a *alone) Flush(context.Context) error { return nil }
func (a *alone) Stats() layer.Stats          { return layer.Stats{} }
func (a *alone) Close()                      { layer.FreeHeap(a.heap) }

// The other methods are never called, because there is no other process.

func (a *alone) Get(context.Context, int, []byte, uint64) error          { return errProcessor }
func (a *alone) Put(context.Context, int, uint64, []byte) error          { return errProcessor }
func (a *alone) Store(context.Context, int, uint64, []byte) error        { return errProcessor }
func (a *alone) Call(context.Context, int, uint32, []byte, []byte) error { return errProcessor }
func (a *alone) Control(context.Context, int, []byte) error              { return errProcessor }
