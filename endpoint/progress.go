package endpoint

import (
	"context"
	"runtime"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Who makes progress
//
// Whoever polls takes in what has arrived for all bundles of the node, and then
// handles what concerns his own. Of those that wait one, the leader, waits for
// the provider with the mutex released; the others, followers, wait at gates of the
// provider until something concerns their bundle, or it is their turn to lead. While there is a
// leader it alone takes things in, or two goroutines would do so out of order.
//
// A leader that has got something for others only wakes those, lets them run, and
// leads on. Whoever leaves, or runs a handler, while others follow and nobody leads
// makes one of them the next leader, which leads if it has nothing else to do, and else
// passes that on. So each message wakes whom it is for, and nobody else.
//
// The engine below has a leader of its own (package progress). The two are not one, because
// they keep different things in order. The engine's leader drives the link, under the
// engine's lock; it may be the service goroutine, or one that waits on a VI of the program's
// own. The node's leader alone takes messages from the provider and puts them into the
// queues of bundles, under the node's mutex, of which the engine knows nothing. So a node's
// followers are parked (Engine.Park): the engine makes none of them its next leader, and the
// node chooses its own when a goroutine leaves, or runs a handler.

// follower is a goroutine that waits for the leader.
type follower struct {
	bundle *Bundle
	gate   provider.Gate
	isNext bool
}

// followers are a node's.
type followers struct {
	list        []*follower
	spare       []*follower
	nextLeaders int  // goroutines that are about to run, and then lead or pass it on
	woken       bool // one has been woken since the leader last looked
}

// crowdPolls is for how many polls that handle nothing a node counts as crowded.
// It is counted anew whenever somebody has to wait for the mutex.
const crowdPolls = 1 << 16

// lock locks the mutex, and notes when another goroutine had it: goroutines that
// poll in a loop would keep each other from it for milliseconds, so while there
// are several they make way. Under virtual time there is but one at a time.
func (n *Node) lock() {
	if !n.mu.TryLock() {
		n.crowd()
	}
}

// crowd locks the mutex, which another goroutine has.
func (n *Node) crowd() {
	n.mu.Lock()
	if !n.virtual {
		n.crowded = crowdPolls
	}
}

// poll takes in what has arrived, without blocking.
func (n *Node) poll() error {
	n.pacing.looked()
	if n.leader != nil {
		return nil
	}
	return n.way.Poll()
}

// flush sends everything that is corked.
func (n *Node) flush() {
	n.way.Flush(wire.Asking)
	n.way.Flush(wire.Serving)
}

// step lets time pass for a goroutine that has found nothing to do for bundle b.
// The mutex is held on entry and on return. It may return for no reason. If atOnce is set and one
// message arrives alone, step may handle that message, and reports whether it has.
func (b *Bundle) step(ctx context.Context, atOnce bool) (handled bool, err error) {
	n := b.node
	n.flush()
	n.stamp() // its time passes while the answer is under way
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
	if !b.pending() { // what has come is for others
		if n.followers.woken && !n.virtual {
			n.makeWay()
		}
		if err == nil {
			err = n.over(ctx)
		}
	}
	return false, err
}

// makeWay lets those run that the leader has woken. They would have to find
// another thread if it slept at once.
func (n *Node) makeWay() {
	n.followers.nextLeaders++
	n.mu.Unlock()
	runtime.Gosched()
	n.lock()
	n.followers.nextLeaders--
}

// pause is step for a goroutine that has handled so many messages, and not got
// what it waits for: it lets time pass only if there were none, but ctx ends the
// wait also while messages keep coming.
func (b *Bundle) pause(ctx context.Context, served int) error {
	if served == 0 {
		_, err := b.step(ctx, false)
		return err
	}
	return b.node.over(ctx)
}

// over returns ctx's error if it has ended on the node's clock. Under virtual time
// the host's clock does not count.
func (n *Node) over(ctx context.Context) error {
	err := ctx.Err()
	if n.virtual && err != context.Canceled {
		return nil
	}
	return err
}

// follow waits until something changes for b, or it is the caller's turn to lead.
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

// changed wakes those that wait for bundle b.
func (b *Bundle) changed() {
	if b.following > 0 {
		b.node.followers.wake(b)
	}
	if b.node.leader == b {
		b.node.way.Wake()
	}
}

// leave is the end of calls that may have led: it unlocks the mutex.
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

// wake wakes those that wait for bundle b.
func (l *followers) wake(b *Bundle) {
	for _, f := range l.list {
		if f.bundle == b {
			f.gate.Open()
			l.woken = true
		}
	}
}
