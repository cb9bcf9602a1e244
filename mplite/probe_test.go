package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestMatchedProbe: what a matched probe has found is gone for all other
// receives and probes, and Mrecv and Imrecv receive it, whether it waits in a
// receive buffer, was moved out of it, or is announced.
func TestMatchedProbe(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		const n = 12 // more than stay in receive buffers
		size := func(i int) int { return []int{0, 700, 4000}[i%3] }
		if c.Rank() == 0 {
			var reqs []mplite.Request
			for i := range n {
				r, err := c.Isend(content(size(i), uint64(i)), 1, 3)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			if err := c.Send(bg, nil, 1, 4); err != nil { // all has been sent
				return err
			}
			return mplite.Waitall(bg, reqs, nil)
		}
		if _, err := c.Recv(bg, nil, 0, 4); err != nil {
			return err
		}
		var all []mplite.Matched
		for i := range n {
			m, found, err := mplite.Matched{}, true, error(nil)
			if i%2 == 0 {
				m, err = c.Mprobe(bg, mplite.AnySource, 3)
			} else {
				m, found, err = c.Improbe(0, mplite.AnyTag)
			}
			if want := (mplite.Status{Source: 0, Tag: 3, Count: size(i)}); err != nil || !found || m.Status() != want {
				return fmt.Errorf("probe %d found %+v, %v, want %+v", i, m.Status(), err, want)
			}
			all = append(all, m)
		}
		if m, found, err := c.Improbe(0, 3); found || err != nil {
			return fmt.Errorf("found again: %+v, %v", m.Status(), err)
		}
		if p := c.Pending(); p.NumUnexpected != n || !p.Unexpected[0].Matched {
			return fmt.Errorf("pending is %+v", p)
		}
		for k := range all {
			i := n - 1 - k // in any order
			buf := make([]byte, size(i))
			st, err := matchedRecv(all[i], buf, i%4 < 2)
			if err != nil || st != all[i].Status() {
				return fmt.Errorf("message %d: %+v, %v", i, st, err)
			}
			if err := same(buf, uint64(i)); err != nil {
				return err
			}
			if _, err := all[i].Mrecv(bg, buf); !errors.Is(err, mplite.ErrRequest) {
				return fmt.Errorf("message %d received twice: %v", i, err)
			}
		}
		if s := c.Snapshot(); s.SpillBytes != 0 || s.Unexpected != 0 {
			return fmt.Errorf("left over: %+v", s)
		}
		return nil
	}))
}

func matchedRecv(m mplite.Matched, buf []byte, wait bool) (mplite.Status, error) {
	if wait {
		return m.Mrecv(bg, buf)
	}
	r, err := m.Imrecv(buf)
	if err != nil {
		return mplite.Status{}, err
	}
	return r.Wait(bg)
}

// TestManyProbers: four goroutines take what comes, each with a buffer of its
// message's size, and nothing is lost or cut off.
func TestManyProbers(t *testing.T) {
	const probers, n = 4, 2000
	c, err := mplite.Init(bg, &mplite.Config{EagerSize: 256})
	check(t, err)
	var mu sync.Mutex
	seen := map[byte]int{}
	errs := make([]error, probers)
	var all sync.WaitGroup
	for i := range probers {
		all.Go(func() {
			errs[i] = probeUntilEmpty(c, func(b []byte) {
				mu.Lock()
				seen[b[0]] += len(b)
				mu.Unlock()
			})
		})
	}
	want := map[byte]int{}
	for i := range n {
		b := make([]byte, 1+i*37%500)
		b[0] = byte(i)
		want[b[0]] += len(b)
		check(t, c.Send(bg, b, 0, 1))
	}
	for range probers {
		check(t, c.Send(bg, nil, 0, 1)) // no more
	}
	all.Wait()
	check(t, errors.Join(errs...))
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("received %v, want %v", seen, want)
	}
	check(t, c.Finalize(bg))
}

// probeUntilEmpty hands over what it receives until an empty message comes.
func probeUntilEmpty(c *mplite.Comm, got func(b []byte)) error {
	for {
		m, err := c.Mprobe(bg, mplite.AnySource, mplite.AnyTag)
		if err != nil {
			return err
		}
		b := make([]byte, m.Status().Count)
		if st, err := m.Mrecv(bg, b); err != nil || st.Count != len(b) {
			return fmt.Errorf("%+v, %w", st, err)
		}
		if len(b) == 0 {
			return nil
		}
		got(b)
	}
}

// TestMatchedTyped: the forms for elements judge the message as receives do, and
// the zero Matched and the null process's are no traps.
func TestMatchedTyped(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	next := func() mplite.Matched {
		check(t, mplite.Send(bg, c, []float32{1, 2}, 0, 0))
		m, found, err := c.Improbe(0, 0)
		if !found || err != nil {
			t.Fatal(found, err)
		}
		return m
	}
	got := make([]float32, 3)
	if st, err := mplite.Mrecv(bg, next(), got); err != nil || mplite.Elements[float32](st) != 2 || got[1] != 2 {
		t.Errorf("Mrecv: %v, %+v, %v", got, st, err)
	}
	if _, err := mplite.Mrecv(bg, next(), make([]int32, 2)); !errors.Is(err, mplite.ErrType) {
		t.Errorf("float32 received as int32: %v", err)
	}
	clear(got)
	r, err := mplite.Imrecv(next(), got)
	check(t, err)
	if _, err := r.Wait(bg); err != nil || got[1] != 2 {
		t.Errorf("Imrecv: %v, %v", got, err)
	}
	if _, err := mplite.Mrecv(bg, next(), got[:1]); !errors.Is(err, mplite.ErrTruncate) {
		t.Errorf("too short: %v", err)
	}
	if _, err := (mplite.Matched{}).Mrecv(bg, nil); !errors.Is(err, mplite.ErrRequest) {
		t.Errorf("zero Matched: %v", err)
	}
	m, err := c.Mprobe(bg, mplite.None, 0)
	if st, err2 := m.Mrecv(bg, nil); err != nil || err2 != nil || m.Status() != fromNone || st != fromNone {
		t.Errorf("from none: %+v, %+v, %v, %v", m.Status(), st, err, err2)
	}
	if _, err := mplite.Imrecv(m, []string{""}); !errors.Is(err, mplite.ErrType) {
		t.Errorf("strings: %v", err)
	}
}

// TestMatchedWithdrawn: a sender that gives up a synchronous message to its own
// rank while a matched probe has it takes it away from that, and leaves no trace.
func TestMatchedWithdrawn(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	ctx, giveUp := context.WithCancel(bg)
	sent := make(chan error)
	go func() { sent <- c.Ssend(ctx, []byte("x"), 0, 1) }()
	m, err := c.Mprobe(bg, 0, 1)
	check(t, err)
	giveUp()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Errorf("the send ended with %v", err)
	}
	if _, err := m.Mrecv(bg, make([]byte, 1)); !errors.Is(err, mplite.ErrCanceled) {
		t.Errorf("the receive ended with %v", err)
	}
	if s := c.Snapshot(); s.SpillBytes != 0 || s.Unexpected != 0 {
		t.Errorf("left over: %+v", s)
	}
}

// TestMatchedFromTheDead: what had come whole can be received, what was only
// announced ends with the sender's death.
func TestMatchedFromTheDead(t *testing.T) {
	cfg := small
	cfg.PeerTimeout = time.Second
	j := newJob(2, sim.Options{}, cfg)
	for rank := range 2 {
		j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			return j.rank(nic, rank, func(c *mplite.Comm) error {
				if rank == 1 {
					if _, err := c.Isend(content(5000, 2), 0, 2); err != nil {
						return err
					}
					if err := c.Send(bg, content(50, 1), 0, 1); err != nil {
						return err
					}
					if err := j.computesFor(c, 20*time.Millisecond); err != nil { // it arrives
						return err
					}
					j.Kill(j.stations[1])
					return errKilled
				}
				return fromTheDead(c)
			})
		})
	}
	check(t, j.runKilled())
}

func fromTheDead(c *mplite.Comm) error {
	whole, err := c.Mprobe(bg, 1, 1)
	if err != nil {
		return err
	}
	announced, err := c.Mprobe(bg, 1, 2)
	if err != nil {
		return err
	}
	if _, err := c.Recv(bg, nil, 1, 3); !errors.Is(err, mplite.ErrRankFailed) {
		return fmt.Errorf("a receive from the dead ended with %w", err)
	}
	buf := make([]byte, 5000)
	if st, err := whole.Mrecv(bg, buf); err != nil || st.Count != 50 || same(buf[:50], 1) != nil {
		return fmt.Errorf("the whole message: %+v, %w", st, err)
	}
	if _, err := announced.Mrecv(bg, buf); !errors.Is(err, mplite.ErrRankFailed) {
		return fmt.Errorf("the announced message ended with %w", err)
	}
	return errKilled
}
