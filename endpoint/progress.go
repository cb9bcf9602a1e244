package endpoint

import "context"

// Who makes progress
//
// Whoever polls takes in what has arrived for all bundles of the node, and then
// handles what concerns his own. Of those that wait one, the leader, waits for
// the provider with the mutex released; the others, followers, sleep until
// something concerns their bundle, or the leader leaves. While there is a leader
// it alone takes things in, or two goroutines would do so out of order.

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
	n.glances.looked()
	if n.leader != nil {
		return nil
	}
	return n.way.poll()
}

// flush sends everything that waits for company.
func (n *Node) flush() {
	n.way.flush(asking)
	n.way.flush(serving)
}

// step lets time pass for a goroutine that has found nothing to do for bundle b.
// The mutex is held on entry and on return. It may return for no reason. If atOnce, it
// handles a message that comes alone, and returns how many it has.
func (b *Bundle) step(ctx context.Context, atOnce bool) (handled int, err error) {
	n := b.node
	n.flush()
	n.stamp() // its time passes while the answer is under way
	if n.leader != nil {
		return 0, b.follow(ctx)
	}
	n.way.catchUp()
	n.leader = b
	n.mu.Unlock()
	err = n.way.wait(ctx)
	n.lock()
	n.glances.looked()
	n.leader = nil
	if n.closed {
		n.wakeAll()
		return 0, ErrClosed
	}
	if n.following > 0 {
		n.wakeAll()
	}
	if atOnce && b.running == 0 {
		if handled = n.way.deliver(b); handled > 0 {
			return handled, nil
		}
	} else {
		n.way.deliver(nil)
	}
	if err == nil && b.replies.n+b.requests.n == 0 { // what has come is for others
		err = n.over(ctx)
	}
	return 0, err
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

// follow waits until something changes for b.
func (b *Bundle) follow(ctx context.Context) error {
	n := b.node
	if b.bell == nil {
		b.bell = make(chan struct{})
	}
	bell := b.bell
	b.following++
	n.following++
	n.mu.Unlock()
	var err error
	select {
	case <-bell:
	case <-ctx.Done():
		err = ctx.Err()
	}
	n.mu.Lock()
	b.following--
	n.following--
	if err == nil && n.closed {
		err = ErrClosed
	}
	return err
}

// changed wakes those that wait for bundle b.
func (b *Bundle) changed() {
	if b.bell != nil {
		close(b.bell)
		b.bell = nil
	}
	if b.node.leader == b {
		b.node.way.wake()
	}
}

// wakeAll wakes all followers, when there is no leader. One of them leads if it
// has nothing else to do; to wake just one would not do, because it may have
// got what it was waiting for, and leave.
func (n *Node) wakeAll() {
	for b := range n.bundles {
		b.changed()
	}
}
