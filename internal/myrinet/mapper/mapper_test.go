package mapper

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

var seeds = seedtest.Flags("internal/myrinet/mapper", 50)

// rig is a network in a world of its own.
type rig struct {
	*Network
	w *sim.World
}

func newRig(seed uint64, t *topology.Topology, opts myrinet.Options, options func(i int) myrinet.MapperOptions) (*rig, error) {
	w := sim.New(sim.Options{Seed: seed, Limit: 1000 * time.Hour})
	opts.Seed, opts.Ports = seed, t.Ports
	f, err := myrinet.New(w, opts)
	if err != nil {
		return nil, err
	}
	n, err := NewNetwork(w, f, t, options)
	return &rig{n, w}, err
}

// defaults are options of the hosts of a network.
func defaults(seed uint64, t *topology.Topology) func(i int) myrinet.MapperOptions {
	return func(i int) myrinet.MapperOptions {
		return myrinet.MapperOptions{ID: HostID(i), Name: t.Hosts[i], Seed: seed<<16 + uint64(i), Ports: t.Ports}
	}
}

func (r *rig) run(d time.Duration) {
	if err := r.w.Sleep(d); err != nil {
		panic(err)
	}
}

// settled reports what keeps the network from being mapped and routed, or nil.
func (r *rig) settled() error {
	for _, part := range r.parts() {
		var leaders []int
		for _, i := range part {
			if r.Hosts[i].Agent.isLeading {
				leaders = append(leaders, i)
			}
		}
		if len(leaders) != 1 {
			return fmt.Errorf("hosts %v have the leaders %v", part, leaders)
		}
		if r.Hosts[leaders[0]].Agent.lead.last == nil {
			return fmt.Errorf("host %d has not mapped yet", leaders[0])
		}
		tables := r.Tables()
		for _, i := range part {
			for _, k := range part {
				if i == k {
					continue
				}
				if tables[i][k] == nil {
					return fmt.Errorf("host %d has no route to %d", i, k)
				}
				if to, _ := Walk(r.truth(), i, tables[i][k]); to != k {
					return fmt.Errorf("host %d: route %v to %d leads to %d", i, tables[i][k], k, to)
				}
			}
		}
	}
	return Deadlocks(r.truth(), r.Tables())
}

// truth is the topology without what is down.
func (r *rig) truth() *topology.Topology {
	t := *r.Topology
	t.Cables = nil
	for i, c := range r.Topology.Cables {
		up := !r.Built.Cables[i].IsCut()
		for _, p := range []topology.Plug{c.A, c.B} {
			up = up && (p.Host || r.Built.Switches[p.Node].Up())
		}
		if up {
			t.Cables = append(t.Cables, c)
		}
	}
	return &t
}

// parts are the hosts that live, by what they have a path to.
func (r *rig) parts() (parts [][]int) {
	t := r.truth()
	at := plugs(t)
	done := map[int]bool{}
	for i, h := range r.Hosts {
		if done[i] || h.Down() {
			continue
		}
		var part []int
		reached := reach(t, at, t.Hosts[i])
		for k := range r.Hosts {
			if reached[k] && !r.Hosts[k].Down() {
				part = append(part, k)
				done[k] = true
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// settle waits until the network is mapped and routed.
func (r *rig) settle(within time.Duration) error {
	var err error
	for end := r.w.Now() + int64(within); r.w.Now() < end; {
		r.run(100 * time.Millisecond)
		if err = r.settled(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("after %v: %w", within, err)
}
