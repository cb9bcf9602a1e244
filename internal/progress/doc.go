// Package progress holds the progress engine of all packages that wait for frames. It
// decides which goroutine polls the link, which one sleeps on it, how long to spin before
// sleeping, and which one runs the program's callbacks once the lock is released.
//
// An Engine drives one Machine, a protocol on a transport.Link. It has no thread of its
// own that the fast path needs, because the goroutines that wait drive it: one goroutine
// in Wait, the leader, polls the link, and sleeps on it when its spin budget is spent.
// The others are followers. Each sleeps at the Gate of what it waits for, and whoever
// completes that opens the gate. A leader that leaves wakes the next leader. So no
// thread sleeps on the socket while another one spins, which would make every frame pay
// for waking it, and a message is handled by the goroutine that waits for it when there
// is only one. When no goroutine waits, the service goroutine leads, so that the protocol
// goes on while the program computes.
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
// What completes the wait, within Poll, calls gate.Open(e).
//
// Calls are functions of the program that the machine has to call. They run in order and
// without the lock, on the goroutine that releases the lock next.
//
// All times are those of the link's clock. Under virtual time no goroutine spins and
// there is no service goroutine. Followers then wait where the simulated world sees them
// (optional.Parking), so that several goroutines of one node may wait there.
package progress
