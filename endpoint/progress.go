package endpoint

import "context"

// Who makes progress
//
// Whoever polls takes in what has arrived for all bundles of the node, and then
// handles what concerns his own. Of those that wait one, the leader, waits for
// the provider with the mutex released; the others, followers, sleep until
// something concerns their bundle, or the leader leaves. While there is a leader
// it alone takes things in, or two goroutines would do so out of order.

// poll takes in what has arrived, without blocking.
func (n *Node) poll() error {
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
// The mutex is held on entry and on return. It may return for no reason.
func (b *Bundle) step(ctx context.Context) error {
	n := b.node
	n.flush()
	n.stamp() // its time passes while the answer is under way
	if n.leader != nil {
		return b.follow(ctx)
	}
	n.way.catchUp()
	n.leader = b
	n.mu.Unlock()
	err := n.way.wait(ctx)
	n.mu.Lock()
	n.leader = nil
	if n.closed {
		n.wakeAll()
		return ErrClosed
	}
	n.way.deliver()
	if n.following > 0 {
		n.wakeAll()
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
