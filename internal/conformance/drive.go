package conformance

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// The functions of this file let time pass, by polls of both NICs or in blocking calls.

// pass lets other goroutines or the simulated segment run.
func (c *Case) pass(step *time.Duration) {
	if c.World == nil {
		runtime.Gosched()
		return
	}
	*step = min(max(2**step, 5*time.Microsecond), time.Millisecond)
	if err := c.World.Sleep(*step); err != nil {
		c.Fatal(err)
	}
}

// late reports whether patience has passed since began.
func (c *Case) late(began int64) bool { return c.A.Now()-began > int64(patience) }

// await polls both NICs until done returns true.
func (c *Case) await(what string, done func() bool) {
	c.Helper()
	began := c.A.Now()
	for step := time.Duration(0); !done(); c.pass(&step) {
		c.A.Poll()
		c.B.Poll()
		if c.late(began) {
			c.Fatalf("%s did not occur; A: %+v, B: %+v", what, states(c.A), states(c.B))
		}
	}
}

func states(n *vipl.NIC) (s []vipl.State) {
	for _, v := range n.Snapshot().VIs {
		s = append(s, v.State)
	}
	return s
}

// drain returns when both NICs have received everything that the other NIC has sent. On a real link
// two echoes in each direction prove this, because frames between two stations keep their order.
func (c *Case) drain() {
	c.Helper()
	if c.World != nil {
		for range 40 {
			c.A.Poll()
			c.B.Poll()
			if err := c.World.Sleep(time.Millisecond); err != nil {
				c.Fatal(err)
			}
		}
		return
	}
	for range 2 {
		for _, n := range c.nics {
			c.drained(n)
		}
	}
}

// drained returns when the other NIC has received everything that n has sent.
func (c *Case) drained(n *vipl.NIC) {
	c.Helper()
	for try := time.Duration(1); try < 10; try++ { // several tries, because a rule's link may lose frames
		ctx, cancel := c.within(try * try * 10 * time.Millisecond)
		var err error
		c.block(n, func() { _, err = n.Echo(ctx, c.other(n).Addr(), 8) })
		if cancel(); err == nil {
			return
		}
		if !errors.Is(err, vipl.ErrTimeout) {
			c.Fatal("echo:", err)
		}
	}
	c.Fatal("the other NIC does not answer echoes")
}

// block runs f, which blocks in calls on n, and drives the other NIC meanwhile.
func (c *Case) block(n *vipl.NIC, f func()) {
	c.Helper()
	switch other := c.other(n); {
	case c.World != nil:
		stop := false
		c.World.Go("driver", func() { c.drive(other, n, &stop) })
		f()
		c.let(&stop, other)
	case c.wait == Spin:
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for !stop.Load() {
				other.Poll()
				runtime.Gosched()
			}
		})
		f()
		stop.Store(true)
		wg.Wait()
	default:
		f()
	}
}

// drive drives a simulated NIC until stop is set. If patience ends first, it kills n's station, so
// that the rule's call on n returns.
func (c *Case) drive(other, n *vipl.NIC, stop *bool) {
	const step = int64(time.Millisecond)
	began := other.Now()
	for !*stop {
		other.Poll()
		if seam.Link(other).Wait(other.Now()+step) != nil { // it is closed
			c.World.Sleep(time.Duration(step))
		}
		if c.late(began) {
			c.vanish(n)
			return
		}
	}
}

// let stops a driver.
func (c *Case) let(stop *bool, other *vipl.NIC) {
	*stop = true
	seam.Link(other).Wake()
	if err := c.World.Sleep(2 * time.Millisecond); err != nil {
		c.Fatal(err)
	}
}

// both runs f, which blocks on NIC n, and g, which blocks on the other NIC, at the same time. After
// one of them has returned, both drives its NIC until the other has returned.
func (c *Case) both(n *vipl.NIC, f, g func() error) (errF, errG error) {
	c.Helper()
	m := c.other(n)
	if c.World == nil {
		var fDone, gDone atomic.Bool
		var wg sync.WaitGroup
		serve := func(n *vipl.NIC, until *atomic.Bool) {
			for !until.Load() {
				n.Poll()
				runtime.Gosched()
			}
		}
		wg.Go(func() {
			errG = g()
			gDone.Store(true)
			serve(m, &fDone)
		})
		errF = f()
		fDone.Store(true)
		serve(n, &gDone)
		wg.Wait()
		return errF, errG
	}
	stop, gDone := false, false
	c.World.Go("peer", func() {
		errG = g()
		gDone = true
		c.drive(m, n, &stop)
	})
	errF = f()
	c.await("the end of the other side's call", func() bool { return gDone })
	c.let(&stop, m)
	return errF, errG
}

// during runs call, which blocks on NIC n, and then act, which ends the call. In virtual time it
// checks that call has blocked before.
func (c *Case) during(n *vipl.NIC, call func() error, act func()) (err error) {
	c.Helper()
	done := make(chan error, 1)
	if c.World == nil {
		go func() { done <- call() }()
		for range 100 {
			runtime.Gosched()
		}
		act()
		for began := time.Now(); ; c.other(n).Poll() { // the other NIC may have no service goroutine
			select {
			case err = <-done:
				return err
			default:
			}
			if time.Since(began) > patience {
				c.Fatal("the call did not return")
			}
			runtime.Gosched()
		}
	}
	returned := false
	c.World.Go("waiter", func() { err = call(); returned = true })
	if err := c.World.Sleep(time.Millisecond); err != nil {
		c.Fatal(err)
	}
	if returned {
		c.Errorf("the call did not block: %v", err)
	}
	act()
	began := c.World.Now()
	for !returned {
		c.other(n).Poll()
		if err := c.World.Sleep(time.Millisecond); err != nil || c.late(began) {
			c.Fatal("the call did not return:", err)
		}
	}
	return err
}
