// Package progress has the engine that every room which waits is driven by: who polls a
// link, who sleeps, for how long to spin, and what is called behind the lock.
//
// An Engine drives one Machine, a protocol on a transport.Link, and has no thread of its
// own that the fast path needs. Whoever waits drives it: a goroutine in Wait polls the
// link itself, and when its spin budget is spent sleeps on it. At most one, the leader,
// does so; the others, followers, sleep each at the Gate of what they wait for, and
// whoever completes that opens the gate. A leader that leaves wakes the next one. So no
// thread sleeps on the socket while another one spins, which would make every frame pay
// for waking it, and no message changes goroutines when only one waits. When nobody
// waits, a service goroutine leads, so that the protocol goes on while the program
// computes.
//
// A machine's own calls look like this:
//
//	e.Lock()
//	defer e.Unlock()
//	w := e.Begin(ctx)
//	defer e.End(&w)
//	for !done() {
//		if err := e.Wait(&w, &gate); err != nil {
//			return err
//		}
//	}
//
// and what completes it, within Poll, ends with gate.Open(e).
//
// Calls are the program's functions that a machine owes: they run in order, without the
// lock, by whoever gives it up next.
//
// Time is the link's. Under virtual time nobody spins and there is no service; followers
// wait where the simulated world sees them (transport.Parking), so several goroutines of
// one node may wait there too.
package progress
