package doctor

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// End is a NIC that takes part in a test of the paths between hosts. It answers the others until
// Close.
type End struct {
	EndFacts
	nic    *vipl.NIC
	before Traffic
}

// EndFacts are what an End tells the others, and the judge.
type EndFacts struct {
	Addr      ethertype.Addr
	Interface string
	MTU       int
	Err       string `json:",omitempty"` // why there is no NIC
	Drops     []Drop `json:",omitempty"` // rules of the host that drop frames, as far as they can be read
}

// Reach is what came of sending frames to another End and back.
type Reach struct {
	Small, Full time.Duration // round trips of short frames, and of frames as long as both MTUs allow; 0: none came back
	MTU         int           // of those
	Carries     int           `json:",omitempty"` // the largest MTU whose frames came back, if full ones did not; 0: not measured
}

// OpenEnd opens a NIC with cfg. Where it cannot, EndFacts says why.
func OpenEnd(cfg *vipl.Config) *End {
	e := &End{}
	nic, err := vipl.Open(cfg)
	if err != nil {
		e.Err = err.Error()
		return e
	}
	info := nic.Link().Info()
	e.nic, e.Addr, e.Interface, e.MTU = nic, nic.Addr(), info.Interface, nic.Query().NativeMTU
	if raw(cfg.Driver) {
		e.Drops, _ = Drops(info.Interface, cmp.Or(cfg.EtherType, ethertype.Default)) // who may not read them sees by the traffic that nothing leaves
		e.before = countTraffic(nic)
	}
	return e
}

// Reach sends frames to the other ends, to all at once, and returns what came of each, in their order,
// and the traffic since OpenEnd. An end without a NIC is not tried.
func (e *End) Reach(ctx context.Context, others []EndFacts) ([]Reach, Traffic) {
	all := make([]Reach, len(others))
	if e.nic == nil {
		return all, Traffic{}
	}
	var wait sync.WaitGroup
	for i, o := range others {
		if o.Err != "" || o.Addr == e.Addr {
			continue
		}
		wait.Go(func() {
			p := Peer{Addr: o.Addr, MTU: o.MTU}
			p.measure(ctx, e.nic)
			all[i] = Reach{Small: p.Small, Full: p.Full, MTU: p.FullBytes + ethertype.BaseSize, Carries: p.Carries}
		})
	}
	wait.Wait()
	if e.before == (Traffic{}) {
		return all, Traffic{}
	}
	return all, countTraffic(e.nic).since(e.before)
}

// Close closes the NIC.
func (e *End) Close() {
	if e.nic != nil {
		e.nic.Close()
	}
}
