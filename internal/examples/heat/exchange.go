package heat

import (
	"context"

	"github.com/bobnet-go/bobnet/mplite"
)

// The tags of messages: the direction in which an edge is sent.
const (
	tagUp = iota
	tagDown
	tagLeft
	tagRight
)

// none is the neighbour beyond the rim of the plate.
const none = mplite.None

// exchange fills a block's halo with the edges of its neighbours.
type exchange struct {
	cart                  *mplite.Cart
	block                 *block
	up, down, left, right int
	toLeft, toRight       []float64 // columns, packed
	fromLeft, fromRight   []float64
	requests              []mplite.Request
}

func newExchange(cart *mplite.Cart, b *block) (*exchange, error) {
	x := &exchange{cart: cart, block: b}
	var err error
	if x.up, x.down, err = cart.Shift(0, 1); err != nil {
		return nil, err
	}
	if x.left, x.right, err = cart.Shift(1, 1); err != nil {
		return nil, err
	}
	for _, column := range []*[]float64{&x.toLeft, &x.toRight, &x.fromLeft, &x.fromRight} {
		*column = make([]float64, b.rows.len())
	}
	return x, nil
}

// start posts the receives and sends the edges of the present step. Until
// finish has returned, the block's edge may be read but not written.
func (x *exchange) start() error {
	b := x.block
	w, h := b.cols.len(), b.rows.len()
	b.packColumn(x.toLeft, 0)
	b.packColumn(x.toRight, w-1)
	x.requests = x.requests[:0]
	for _, m := range []struct {
		from, tag int
		cells     []float64
	}{
		{x.down, tagUp, b.row(b.now, h)},
		{x.up, tagDown, b.row(b.now, -1)},
		{x.right, tagLeft, x.fromRight},
		{x.left, tagRight, x.fromLeft},
	} {
		if m.from == none {
			continue
		}
		r, err := mplite.Irecv(x.cart.Comm, m.cells, m.from, m.tag)
		if err != nil {
			return err
		}
		x.requests = append(x.requests, r)
	}
	for _, m := range []struct {
		to, tag int
		cells   []float64
	}{
		{x.up, tagUp, b.row(b.now, 0)},
		{x.down, tagDown, b.row(b.now, h-1)},
		{x.left, tagLeft, x.toLeft},
		{x.right, tagRight, x.toRight},
	} {
		if m.to == none {
			continue
		}
		r, err := mplite.Isend(x.cart.Comm, m.cells, m.to, m.tag)
		if err != nil {
			return err
		}
		x.requests = append(x.requests, r)
	}
	return nil
}

// finish waits until the halo is filled and the edges are free again.
func (x *exchange) finish(ctx context.Context) error {
	if err := mplite.Waitall(ctx, x.requests, nil); err != nil {
		return err
	}
	if x.left != none {
		x.block.unpackColumn(x.fromLeft, -1)
	}
	if x.right != none {
		x.block.unpackColumn(x.fromRight, x.block.cols.len())
	}
	return nil
}
