package endpoint

import (
	"context"
	"runtime"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Progress
//
// A goroutine that polls receives the messages for all bundles of the node, and then handles those
// of its own bundle. Of the goroutines that wait, one is the leader: it waits for the provider,
// with the mutex released. The others are followers. They wait at gates of the provider until an
// event of their bundle, or until they become the leader. While there is a leader, only the leader
// receives messages; two goroutines could receive them out of order.
//
// A leader that has received messages for others only wakes those goroutines, yields to them, and
// continues to lead. A goroutine that returns, or runs a handler, while there are followers and no
// leader, makes one follower the next leader. That follower leads if it has nothing else to do, or
// else selects the next one. So a message wakes only the goroutines that it is for.
//
// The engine below has a leader of its own (package progress). The two are not one, because they
// keep different things in order. The engine's leader drives the link, under the engine's lock; it
// may be the service goroutine, or one that waits on a VI of the program's own. The node's leader
// alone takes messages from the provider and puts them into the queues of bundles, under the node's
// mutex, which the engine does not know. So a node's followers are parked (Engine.Park): the engine
// makes none of them its next leader, and the node chooses its own when a goroutine leaves, or runs
// a handler.

// follower is a goroutine that waits for the leader.
type follower struct {
	bundle *Bundle
	gate   provider.Gate
	isNext bool
}

// followers are the followers of a node.
type followers struct {
	list        []*follower
	spare       []*follower
	nextLeaders int  // woken goroutines that have not run yet; each then leads, or selects another leader
	woken       bool // a goroutine was woken since the leader last checked
}

// crowdPolls is the number of polls without a message for which a node stays crowded. The count
// restarts whenever a goroutine has to wait for the mutex.
const crowdPolls = 1 << 16

// lock locks the mutex, and records contention. Goroutines that poll in a loop would keep each
// other from the mutex for milliseconds, so they yield while there are several. In virtual time
// only one runs at a time.
func (n *Node) lock() {
	if !n.mu.TryLock() {
		n.crowd()
	}
}

// crowd locks the mutex, which another goroutine holds.
func (n *Node) crowd() {
	n.mu.Lock()
	if !n.virtual {
		n.crowded = crowdPolls
	}
}

// poll receives messages without blocking.
func (n *Node) poll() error {
	n.pacing.looked()
	if n.leader != nil {
		return nil
	}
	return n.way.Poll()
}

// flush sends all batched messages.
func (n *Node) flush() {
	n.way.Flush(wire.Asking)
	n.way.Flush(wire.Serving)
}

// step lets time pass for a goroutine that has nothing to handle for bundle b. The caller holds the
// mutex, before and after. step may return spuriously. If atOnce is set and one message arrives
// alone, step may handle it, and then returns true.
func (b *Bundle) step(ctx context.Context, atOnce bool) (handled bool, err error) {
	n := b.node
	n.flush()
	n.stamp() // its time passes while the answer is in flight
	if n.leader != nil || n.followers.nextLeaders > 0 {
		return false, b.follow(ctx)
	}
	n.way.CatchUp()
	n.leader = b
	n.mu.Unlock()
	err = n.way.Wait(ctx)
	n.lock()
	n.pacing.looked()
	n.leader = nil
	if n.closed {
		if n.left != nil {
			n.left.Open()
		}
		return false, errNodeClosed
	}
	n.followers.woken = false
	n.atOnce = b
	handled = n.way.Deliver(atOnce && b.running == 0)
	if handled {
		return true, nil
	}
	if !b.pending() { // the messages are for other bundles
		if n.followers.woken && !n.virtual {
			n.makeWay()
		}
		if err == nil {
			err = n.over(ctx)
		}
	}
	return false, err
}

// makeWay yields to the goroutines that the leader has woken. If it slept at once, they would need
// another thread.
func (n *Node) makeWay() {
	n.followers.nextLeaders++
	n.mu.Unlock()
	runtime.Gosched()
	n.lock()
	n.followers.nextLeaders--
}

// pause is step for a goroutine that has handled served messages but still waits. It lets time pass
// only if served is 0. But the end of ctx ends the wait even while messages keep arriving.
func (b *Bundle) pause(ctx context.Context, served int) error {
	if served == 0 {
		_, err := b.step(ctx, false)
		return err
	}
	return b.node.over(ctx)
}

// over returns ctx's error if ctx has ended on the node's clock. In virtual time the host's clock
// does not count.
func (n *Node) over(ctx context.Context) error {
	err := ctx.Err()
	if n.virtual && err != context.Canceled {
		return nil
	}
	return err
}

// follow waits until something changes for b, or the caller becomes the leader.
func (b *Bundle) follow(ctx context.Context) error {
	n := b.node
	f := n.followers.add(b)
	n.mu.Unlock()
	err := f.gate.Wait(ctx)
	n.mu.Lock()
	n.followers.remove(f)
	if err == nil && n.closed {
		err = errNodeClosed
	}
	return err
}

// changed wakes the goroutines that wait for bundle b.
func (b *Bundle) changed() {
	if b.following > 0 {
		b.node.followers.wake(b)
	}
	if b.node.leader == b {
		b.node.way.Wake()
	}
}

// leave is called at the end of calls that may have led: it unlocks the mutex.
func (n *Node) leave() {
	if l := &n.followers; len(l.list) > 0 && l.nextLeaders == 0 && n.leader == nil {
		l.makeNext()
	}
	n.mu.Unlock()
}

func (l *followers) makeNext() {
	f := l.list[len(l.list)-1]
	f.isNext = true
	l.nextLeaders++
	f.gate.Open()
}

func (l *followers) add(b *Bundle) (f *follower) {
	if last := len(l.spare) - 1; last >= 0 {
		f, l.spare = l.spare[last], l.spare[:last]
	} else {
		f = &follower{gate: b.node.way.Gate()}
	}
	f.bundle = b
	b.following++
	l.list = append(l.list, f)
	return f
}

func (l *followers) remove(f *follower) {
	i := slices.Index(l.list, f)
	last := len(l.list) - 1
	l.list[i], l.list[last] = l.list[last], nil
	l.list = l.list[:last]
	f.bundle.following--
	if f.isNext {
		l.nextLeaders--
	}
	f.bundle, f.isNext = nil, false
	l.spare = append(l.spare, f)
}

// wake wakes the goroutines that wait for bundle b.
func (l *followers) wake(b *Bundle) {
	for _, f := range l.list {
		if f.bundle == b {
			f.gate.Open()
			l.woken = true
		}
	}
}
