package mplite_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestRandomOperations: every rank sends every other one, and itself, messages by
// operations of every kind and receives them by operations of every kind, started
// in any order; each message arrives whole where it was asked for.
func TestRandomOperations(t *testing.T) {
	seeds(t, 8, func(seed uint64) error {
		opts := sim.Options{Seed: seed, Loss: 0.02, Dup: 0.02, Reorder: 0.05}
		j := newJob(3, opts, small)
		j.start(func(c *mplite.Comm) error {
			o := &operations{j: j, Comm: c, rng: rand.New(rand.NewPCG(seed, uint64(c.Rank())))}
			if err := o.start(40); err != nil {
				return err
			}
			return o.finish()
		})
		return j.run()
	})
}

// operations is what a rank has started.
type operations struct {
	j *testJob
	*mplite.Comm
	rng    *rand.Rand
	reqs   []mplite.Request
	probes []arrival      // to be received by matched probes
	came   []func() error // check what was received
}

// arrival is a message of a rank.
type arrival struct{ from, to, tag int }

func (a arrival) size() int  { return (a.from*977 + a.to*331 + a.tag*613) % 3000 }
func (a arrival) id() uint64 { return uint64(100*a.from + 10*a.to + a.tag) }

// start begins n sends to, and n receives from, every rank.
func (o *operations) start(n int) error {
	for _, i := range o.rng.Perm(2 * n * o.Size()) {
		peer, tag := i%o.Size(), i/o.Size()/2
		var r mplite.Request
		var err error
		if i/o.Size()%2 == 0 {
			r, err = o.send(arrival{o.Rank(), peer, tag})
		} else {
			r, err = o.recv(arrival{peer, o.Rank(), tag})
		}
		if err != nil {
			return err
		}
		o.reqs = append(o.reqs, r)
	}
	return nil
}

// spread is a vector of n bytes, two apart.
func spread(n int) mplite.Vector[byte] {
	v, err := mplite.NewVector(make([]byte, 2*n), n, 1, 2)
	if err != nil {
		panic(err)
	}
	return v
}

func begun(r mplite.Request, err error) (mplite.Request, error) {
	if err == nil {
		err = r.Start()
	}
	return r, err
}

func (o *operations) send(a arrival) (mplite.Request, error) {
	b := content(a.size(), a.id())
	v := spread(len(b))
	v.Unpack(b)
	switch o.rng.IntN(7) {
	case 0:
		return o.Isend(b, a.to, a.tag)
	case 1:
		return o.Issend(b, a.to, a.tag)
	case 2:
		return begun(o.SendInit(b, a.to, a.tag))
	case 3:
		return begun(o.SsendInit(b, a.to, a.tag))
	case 4:
		return v.Isend(o.Comm, a.to, a.tag)
	case 5:
		return begun(v.SsendInit(o.Comm, a.to, a.tag))
	}
	r, err := o.Isend(b, a.to, a.tag)
	if err == nil {
		err = r.Free()
	}
	return mplite.Request{}, err
}

func (o *operations) recv(a arrival) (mplite.Request, error) {
	b, v := make([]byte, a.size()), spread(a.size())
	form := o.rng.IntN(6)
	if form >= 4 {
		o.came = append(o.came, func() error {
			v.Pack(b)
			return same(b, a.id())
		})
	} else {
		o.came = append(o.came, func() error { return same(b, a.id()) })
	}
	switch form {
	case 0:
		return o.Irecv(b, a.from, a.tag)
	case 1:
		return begun(o.RecvInit(b, a.from, a.tag))
	case 2: // cancelled, and begun again if it could be
		r, err := o.Irecv(b, a.from, a.tag)
		if err != nil {
			return r, err
		}
		r.Cancel()
		if st, done, err := r.Test(); err != nil || done && !st.Canceled {
			return mplite.Request{}, err
		} else if !done {
			return r, nil
		}
		return o.Irecv(b, a.from, a.tag)
	case 3:
		last := len(o.came) - 1
		o.probes = append(o.probes, a)
		o.came = o.came[:last]
		return mplite.Request{}, nil
	case 4:
		return v.Irecv(o.Comm, a.from, a.tag)
	}
	return begun(v.RecvInit(o.Comm, a.from, a.tag))
}

// finish takes the messages that are to be probed, waits for all and looks at
// what has come.
func (o *operations) finish() error {
	for len(o.probes) > 0 {
		if err := o.j.computesFor(o.Comm, 50*time.Microsecond); err != nil {
			return err
		}
		var left []arrival
		for _, a := range o.probes {
			m, found, err := o.Improbe(a.from, a.tag)
			switch {
			case err != nil:
				return err
			case !found:
				left = append(left, a)
				continue
			}
			b := make([]byte, m.Status().Count)
			r, err := m.Imrecv(b)
			if err != nil {
				return err
			}
			o.reqs = append(o.reqs, r)
			o.came = append(o.came, func() error { return same(b, a.id()) })
		}
		o.probes = left
	}
	indices := make([]int, len(o.reqs))
	for {
		n, err := mplite.Waitsome(bg, o.reqs, indices, nil)
		if err != nil {
			return err
		}
		if n == mplite.Undefined {
			break
		}
	}
	for _, check := range o.came {
		if err := check(); err != nil {
			return err
		}
	}
	if s := o.Snapshot(); s.SpillBytes != 0 || s.Strays != 0 {
		return fmt.Errorf("left over: %+v", s)
	}
	return nil
}
