package paper

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
)

// viaLink carries a skeleton's requests in the messages of a layer. It uses loads and stores for a
// process of the same host that shares its memory.
type viaLink struct{ *viaRank }

// The messages that carry a skeleton's requests, and back.
var (
	viaKinds      = map[skeleton.Kind]byte{skeleton.Store: viaStore, skeleton.Up: viaUp, skeleton.Down: viaDown, skeleton.Add: viaAdd}
	skeletonKinds = map[byte]skeleton.Kind{viaStore: skeleton.Store, viaUp: skeleton.Up, viaDown: skeleton.Down, viaAdd: skeleton.Add}
)

// Request implements skeleton.Link.
func (l viaLink) Request(to int, kind skeleton.Kind, value int32, bytes int) error {
	if len(l.vis[to]) > 0 {
		return l.request(to, viaKinds[kind], value, bytes)
	}
	if err := l.works(l.m.local(bytes)); err != nil {
		return err
	}
	other := l.others[to]
	answer := other.program.Arrived(kind, value, bytes)
	other.wait.Wake()
	if kind == skeleton.Add {
		l.program.Answered(answer)
	}
	return nil
}

// Await implements skeleton.Link.
func (l viaLink) Await() error { return l.await() }

// Poll implements skeleton.Link.
func (l viaLink) Poll() error {
	for len(l.queue) > 0 {
		if err := l.take(); err != nil {
			return err
		}
	}
	return nil
}

// Compute implements skeleton.Link.
func (l viaLink) Compute(operations int) error {
	return l.works(l.m.rate().take(operations))
}

// Segment implements skeleton.Link.
func (l viaLink) Segment() int { return viaSegment }

// local returns the processor's time to store a number of bytes to shared memory.
func (m *viaModel) local(bytes int) time.Duration {
	return m.store + time.Duration(float64(bytes)/m.storeRate*1e9)
}

// apply runs an application on procs processes over a layer. It returns the duration from the time
// at which all processes have started.
func (m *viaModel) apply(ctx context.Context, layer viaLayer, procs int, app application) (d time.Duration, err error) {
	var began, ended int64
	err = m.cluster(ctx, layer, procs, func(r *viaRank) error {
		r.program = skeleton.New(viaLink{r}, r.rank, procs)
		if err := r.program.Barrier(); err != nil {
			return err
		}
		began = max(began, r.w.Now())
		err := app.Run(r.program)
		ended = max(ended, r.w.Now())
		return err
	})
	return time.Duration(ended - began), err
}
