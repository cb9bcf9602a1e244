package main

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/endpoint"
)

// The handlers. Their arguments are the halves of a sum.
const (
	hUp    = 1 // a child's sum
	hDown  = 2 // the total
	hHeard = 3 // the reply to hDown, without arguments
)

// tag separates the tree's messages from others.
const tag endpoint.Tag = 0x7472

// tree is one rank's place in the tree. Its translations are the parent, at index 0, and the
// children.
type tree struct {
	node     *endpoint.Node
	bundle   *endpoint.Bundle
	ep       *endpoint.Endpoint
	rank     int
	size     int
	children []int // translations
	// Results of the handlers. A child can be ahead by at most one message: it waits for the total
	// before it starts the next round.
	ups   int
	below uint64 // sum of the children
	down  bool
	total uint64
	owed  int // totals that children have neither replied to nor returned
	back  error
}

// join adds a rank to the tree of a job.
func join(ctx context.Context, node *endpoint.Node, job string, rank, size int) (*tree, error) {
	t := &tree{node: node, rank: rank, size: size}
	var err error
	if t.bundle, err = node.NewBundle(endpoint.Sequential); err != nil {
		return nil, err
	}
	if t.ep, err = t.bundle.NewEndpoint(); err != nil {
		return nil, err
	}
	t.ep.SetTag(tag)
	t.ep.SetHandler(hUp, func(_ endpoint.Token, args []uint32, _ []byte) {
		t.ups++
		t.below += join64(args)
	})
	t.ep.SetHandler(hDown, func(token endpoint.Token, args []uint32, _ []byte) {
		t.down, t.total = true, join64(args)
		token.Reply(hHeard)
	})
	t.ep.SetHandler(hHeard, func(endpoint.Token, []uint32, []byte) { t.owed-- })
	t.ep.SetReturnHandler(func(r *endpoint.Returned) {
		t.back = fmt.Errorf("the neighbour at %v: %v", r.To, r.Reason)
		if r.Handler == hDown {
			t.owed--
		}
	})
	if err := t.ep.Publish(word(job, rank)); err != nil {
		return nil, err
	}
	if rank > 0 {
		if err := t.neighbour(ctx, 0, job, (rank-1)/2); err != nil {
			return nil, err
		}
	}
	for child := 2*rank + 1; child <= min(2*rank+2, size-1); child++ {
		i := child - 2*rank
		if err := t.neighbour(ctx, i, job, child); err != nil {
			return nil, err
		}
		t.children = append(t.children, i)
	}
	return t, nil
}

func word(job string, rank int) string { return fmt.Sprintf("barrier/%s/%d", job, rank) }

// neighbour maps a rank.
func (t *tree) neighbour(ctx context.Context, i int, job string, rank int) error {
	name, err := t.node.Find(ctx, word(job, rank))
	if err != nil {
		return err
	}
	return t.ep.Map(i, name, tag)
}

// join64 joins the two halves of a sum.
func join64(args []uint32) uint64 {
	if len(args) != 2 {
		return 0
	}
	return uint64(args[0]) | uint64(args[1])<<32
}

// sum returns the sum of all ranks' values, after all have contributed.
func (t *tree) sum(ctx context.Context, value uint64) (uint64, error) {
	if err := t.until(ctx, func() bool { return t.ups == len(t.children) }); err != nil {
		return 0, err
	}
	value += t.below
	t.ups, t.below = 0, 0
	if t.rank > 0 {
		if err := t.ep.Request(ctx, 0, hUp, uint32(value), uint32(value>>32)); err != nil {
			return 0, err
		}
		if err := t.until(ctx, func() bool { return t.down }); err != nil {
			return 0, err
		}
		t.down, value = false, t.total
	}
	for _, i := range t.children {
		t.owed++
		if err := t.ep.Request(ctx, i, hDown, uint32(value), uint32(value>>32)); err != nil {
			return 0, err
		}
	}
	return value, nil
}

// barrier returns when all ranks have called it.
func (t *tree) barrier(ctx context.Context) error {
	_, err := t.sum(ctx, 0)
	return err
}

// until runs handlers until done returns true.
func (t *tree) until(ctx context.Context, done func() bool) error {
	for !done() {
		if t.back != nil {
			return t.back
		}
		if _, err := t.bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leave ends a rank's part after its children have received its messages: messages that are not
// handled when a connection ends are lost. The parent needs nothing more, because otherwise it
// would not have sent the last total. A child that has left has received the total, and perhaps its
// reply was lost.
func (t *tree) leave(ctx context.Context) error {
	for t.owed > 0 {
		if _, err := t.bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
	return nil
}
