package paper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// viaModel is the hardware of the Split-C paper, and the times that its hosts' processors take.
type viaModel struct {
	timing        *myrinet.Timing
	costs         viaCosts
	send, receive time.Duration // the host's time to send and to receive a message
	poll          time.Duration // time of AMVIA's poll routine when a message has arrived
	recycle       time.Duration // time of the poll routine to take back a send descriptor
	lean          float64       // share of poll and recycle that the layers over VIA take
	memory        float64       // rate of copies, bytes per second
	credits       [2]int        // of short and medium messages
	answered      bool          // stores have replies over all layers
	phased        bool          // reads and writes do not wait for their replies
	clock         float64       // of the processor, cycles per second
	operation     float64       // cycles of an arithmetic operation of applications
	now           float64       // speed of the NOW's processor, relative to this one
	store         time.Duration // time of a store in memory that processes share
	storeRate     float64       // rate of such stores, bytes per second
	fabric        myrinet.Options
	em3d          skeleton.EM3D
	cg            skeleton.CG
	teapot        skeleton.Raytrace
}

func newVIAModel() *viaModel {
	return &viaModel{
		timing: myrinet.PCITiming(), costs: viaCosts{Look: 25, Send: 167, Receive: 352},
		send: 3 * time.Microsecond, receive: 5 * time.Microsecond, poll: 15 * time.Microsecond, recycle: 27 * time.Microsecond, lean: 0.5, memory: 29.3e6, clock: 400e6, operation: 5, now: 0.65,
		credits: [2]int{endpoint.AMVIACredits.Short, endpoint.AMVIACredits.Medium},
		store:   400 * time.Nanosecond, storeRate: 100e6, fabric: myrinet.Options{Bandwidth: 160_000_000},
		em3d: em3d, cg: cg, teapot: teapot,
	}
}

// onMillennium returns an experiment that runs on the paper's hardware.
func onMillennium(run func(*Bench, *viaModel) error) func(*Bench) error {
	return func(b *Bench) error { return run(b, modelOf(b, newVIAModel())) }
}

// less returns the time that a part of AMVIA's poll routine takes in the layers over VIA.
func (m *viaModel) less(d time.Duration) time.Duration { return time.Duration(float64(d) * m.lean) }

// copies returns the time to copy a message of n bytes. The time of a send includes copies up to
// the size of a descriptor.
func (m *viaModel) copies(n int) time.Duration {
	if n <= 32 {
		return 0
	}
	return time.Duration(float64(n) / m.memory * 1e9)
}

// The paper's layers over VIA, and VIA itself with messages like AMVIA's.
func (m *viaModel) amvia() viaLayer {
	return viaLayer{name: "am", vis: 3, credits: m.credits, least: 64, replies: true, poll: m.poll, recycle: m.recycle}
}

func (m *viaModel) reliable() viaLayer {
	return viaLayer{name: "reliable", vis: 2, credits: m.credits, replies: m.answered, poll: m.less(m.poll), recycle: m.less(m.recycle)}
}

func (m *viaModel) unreliable() viaLayer {
	l := m.reliable()
	l.name, l.counted = "unreliable", true
	return l
}

func (m *viaModel) via() viaLayer {
	l := m.amvia()
	l.name, l.replies, l.bare, l.poll, l.recycle = "VIA", false, true, 0, 0
	return l
}

func (m *viaModel) layers() []viaLayer {
	return []viaLayer{m.amvia(), m.reliable(), m.unreliable()}
}

// run runs a client on one host, or on each host if both is set. Both hosts serve requests until
// all clients have finished.
func (m *viaModel) run(ctx context.Context, layer viaLayer, both bool, client func(r *viaRank) error) error {
	return m.cluster(ctx, layer, 2, func(r *viaRank) error {
		if r.rank == 0 || both {
			return client(r)
		}
		return nil
	})
}

// cluster runs a program on procs processes. Each process then serves requests until all have
// finished.
func (m *viaModel) cluster(ctx context.Context, layer viaLayer, procs int, program func(r *viaRank) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	perNode := 1
	if layer.shared {
		perNode = 2
	}
	w := sim.New(sim.Options{Seed: 1, Limit: time.Hour})
	hosts, err := viaCluster(w, m, layer.vis, procs, perNode)
	if err != nil {
		return err
	}
	ranks, errs := make([]*viaRank, procs), make([]error, procs)
	for i, h := range hosts {
		ranks[i] = &viaRank{viaHost: h, m: m, layer: layer, channels: make([][2]viaChannel, procs), others: ranks}
	}
	over := 0
	for i, r := range ranks {
		w.Go(fmt.Sprint("process ", i), func() {
			errs[i] = program(r)
			if over++; errs[i] != nil {
				over = procs // the other processes end, too
			}
			for _, other := range hosts {
				other.wait.Wake()
			}
			for errs[i] == nil && over < procs {
				errs[i] = r.await()
			}
		})
	}
	return errors.Join(w.Run(), errors.Join(errs...))
}

// Repetitions of the measured operations in the benchmarks.
const (
	viaRounds = 100 // of operations that block
	viaBurst  = 640 // ten times the credits
)

// stream returns the time of each of n requests for a number of bytes, in microseconds, until all
// requests that have replies are complete.
func (m *viaModel) stream(ctx context.Context, layer viaLayer, both bool, kind byte, bytes, n int) (us float64, err error) {
	err = m.run(ctx, layer, both, func(r *viaRank) error {
		began := r.w.Now()
		for range n {
			if err := r.request(1-r.rank, kind, 0, bytes); err != nil {
				return err
			}
		}
		err := r.sync()
		us = max(us, micro(time.Duration(r.w.Now()-began))/float64(n))
		return err
	})
	return us, err
}

// blocking returns how long a request takes until it is complete.
func (m *viaModel) blocking(ctx context.Context, layer viaLayer, both bool, kind byte, bytes int) (us float64, err error) {
	err = m.run(ctx, layer, both, func(r *viaRank) error {
		began := r.w.Now()
		for range viaRounds {
			if err := errors.Join(r.request(1-r.rank, kind, 0, bytes), r.sync()); err != nil {
				return err
			}
		}
		us = max(us, micro(time.Duration(r.w.Now()-began))/viaRounds)
		return nil
	})
	return us, err
}

// viaLogP has the values of figure 6-2 and table 6-1 for AMVIA, in microseconds.
type viaLogP struct {
	send, gap float64
	plateau   float64   // time between the requests of a burst
	knee      int       // number of requests in a burst beyond which this time is longer
	issued    []float64 // time at which each request of a long burst had been issued
}

// measureVIALogP sends a request, and then a burst, to a host that only answers.
func (m *viaModel) measureVIALogP(ctx context.Context) (l viaLogP, err error) {
	err = m.run(ctx, m.amvia(), false, func(r *viaRank) error {
		for range 2 { // the second time, the card is idle
			began := r.w.Now()
			if err := r.request(1-r.rank, viaPut, 0, 4); err != nil {
				return err
			}
			l.send = micro(time.Duration(r.w.Now() - began))
			if err := r.sync(); err != nil {
				return err
			}
		}
		if err := r.w.Sleep(time.Millisecond); err != nil {
			return err
		}
		began := r.w.Now()
		for range viaBurst {
			if err := r.request(1-r.rank, viaPut, 0, 4); err != nil {
				return err
			}
			l.issued = append(l.issued, micro(time.Duration(r.w.Now()-began)))
		}
		return r.sync()
	})
	if err != nil {
		return l, err
	}
	const settled = 16
	l.gap = (l.issued[viaBurst-1] - l.issued[viaBurst/2-1]) / (viaBurst / 2)
	l.plateau = (l.issued[2*settled] - l.issued[settled]) / settled
	for i := settled + 1; i < viaBurst && l.knee == 0; i++ {
		if l.issued[i]-l.issued[i-1] > (l.plateau+l.gap)/2 {
			l.knee = i
		}
	}
	return l, nil
}
