package mplite

import "context"

// Alltoall sends part r of send to rank r and receives its part for this rank
// as part r of recv (MPI_Alltoall). All parts have one length; both buffers
// are Size times as long.
func Alltoall[T Number](ctx context.Context, c *Comm, send, recv []T) error {
	x, err := c.begin(ctx, CollAlltoall, elementOf[T]())
	if err != nil {
		return err
	}
	if len(send)%x.size != 0 {
		return opError(CollAlltoall.String(), ErrArgument, "send has %d elements, which %d ranks cannot share equally", len(send), x.size)
	}
	if err := checkLen(CollAlltoall, "recv", len(recv), len(send)); err != nil {
		return err
	}
	from, to := asBytes(send), asBytes(recv)
	block := len(from) / x.size
	if block <= alltoallShort && x.size >= 8 {
		return x.alltoallBruck(from, to, block)
	}
	return x.alltoallPairs(from, to, layout{block: block}, layout{block: block})
}

// Alltoallv sends sendCounts[r] elements to rank r and receives recvCounts[r]
// from it, both packed in rank order (MPI_Alltoallv).
func Alltoallv[T Number](ctx context.Context, c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int) error {
	x, err := c.begin(ctx, CollAlltoall, elementOf[T]())
	if err != nil {
		return err
	}
	out, err := c.partsOf(CollAlltoall, "send", sendCounts, sizeOf[T](), len(send))
	if err != nil {
		return err
	}
	in, err := c.partsOf(CollAlltoall, "recv", recvCounts, sizeOf[T](), len(recv))
	if err != nil {
		return err
	}
	if err := checkLen(CollAlltoall, "own part", recvCounts[x.rank], sendCounts[x.rank]); err != nil {
		return err
	}
	return x.alltoallPairs(asBytes(send), asBytes(recv), out, in)
}

// alltoallPairs exchanges with every rank in turn, each rank with another one
// at any time.
func (x *coll) alltoallPairs(send, recv []byte, out, in layout) error {
	copy(in.part(recv, x.rank), out.part(send, x.rank))
	for k := 1; k < x.size; k++ {
		dst, src := around(x.rank+k, x.size), around(x.rank-k, x.size)
		if err := x.swap(out.part(send, dst), dst, in.part(recv, src), src); err != nil {
			return err
		}
	}
	return nil
}

// alltoallBruck takes ceil(log2) rounds instead of one for each rank: in round
// k everything that has a distance with bit k still to go travels 2^k ranks in
// one message. Each byte is sent about log2/2 times.
func (x *coll) alltoallBruck(send, recv []byte, block int) error {
	n := x.size
	tmp := x.c.scratchBytes(3 * n * block)
	slots, pack, in := tmp[:n*block], tmp[n*block:2*n*block], tmp[2*n*block:]
	at := func(b []byte, i int) []byte { return b[i*block : (i+1)*block] }
	for i := range n { // slot i goes i ranks on
		copy(at(slots, i), at(send, around(x.rank+i, n)))
	}
	for k := 1; k < n; k <<= 1 {
		m := 0
		for i := k; i < n; i++ {
			if i&k != 0 {
				copy(at(pack, m), at(slots, i))
				m++
			}
		}
		if err := x.swap(pack[:m*block], around(x.rank+k, n), in[:m*block], around(x.rank-k, n)); err != nil {
			return err
		}
		m = 0
		for i := k; i < n; i++ {
			if i&k != 0 {
				copy(at(slots, i), at(in, m))
				m++
			}
		}
	}
	for i := range n { // slot i came from i ranks before
		copy(at(recv, around(x.rank-i, n)), at(slots, i))
	}
	return nil
}
