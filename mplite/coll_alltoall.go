package mplite

import "context"

// Alltoall sends part r of send to rank r and receives rank r's part for this rank as part r of
// recv (MPI_Alltoall). All parts have the same length, and both buffers are Size times as long. A
// nil send means that recv holds the parts to send (MPI_IN_PLACE).
func Alltoall[T any](ctx context.Context, c *Comm, send, recv []T) error {
	x, err := c.begin(ctx, sign[T](callAlltoall, 0, opNone, len(recv)))
	if err != nil {
		return err
	}
	return alltoall(&x, send, recv)
}

// Ialltoall starts an Alltoall (MPI_Ialltoall).
func Ialltoall[T any](c *Comm, send, recv []T) (Request, error) {
	x, err := c.plan(sign[T](callAlltoall, 0, opNone, len(recv)), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(alltoall(x, send, recv))
}

func alltoall[T any](x *coll, send, recv []T) error {
	if len(recv)%x.size != 0 {
		return x.invalid(ErrArgument, "recv has %d elements, which %d ranks cannot share equally", len(recv), x.size)
	}
	if send != nil {
		if err := x.checkLen("send", len(send), len(recv)); err != nil {
			return err
		}
	}
	from, to := asBytes(send), asBytes(recv)
	block := len(to) / x.size
	use := x.choose(alltoallRules, block, 0, true)
	if use == algShared {
		if send == nil {
			from = to // which is not written to before all of it has been read
		}
		return x.alltoallShared(from, to, block)
	}
	if use == algBruck {
		if send == nil {
			from = to // Bruck reads all of it before it writes to it
		}
		return x.alltoallBruck(from, to, block)
	}
	if send == nil {
		from = x.inPlace(to)
	}
	return x.alltoallDirect(use, from, to, layout{block: block}, layout{block: block})
}

// inPlace returns a copy of the data to send, if they are in the receive buffer.
func (x *coll) inPlace(b []byte) []byte {
	tmp := x.scratchBytes(len(b))
	x.copy(tmp, b)
	return tmp
}

// Alltoallv sends sendCounts[r] elements to rank r and receives recvCounts[r] from it
// (MPI_Alltoallv). Both are packed in rank order. With the optional displs, two slices, the part
// for rank r begins at element displs[0][r] of send, and the part from rank r at element
// displs[1][r] of recv. If send and sendCounts are nil, the parts to send are in the places of the
// parts of recv (MPI_IN_PLACE), and displs[0] is ignored.
func Alltoallv[T any](ctx context.Context, c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int, displs ...[]int) error {
	x, err := c.begin(ctx, sign[T](callAlltoallv, 0, opNone, 0))
	if err != nil {
		return err
	}
	return alltoallv(&x, send, sendCounts, recv, recvCounts, displs)
}

// Ialltoallv starts an Alltoallv (MPI_Ialltoallv).
func Ialltoallv[T any](c *Comm, send []T, sendCounts []int, recv []T, recvCounts []int, displs ...[]int) (Request, error) {
	x, err := c.plan(sign[T](callAlltoallv, 0, opNone, 0), nil)
	if err != nil {
		return Request{}, err
	}
	return x.launch(alltoallv(x, send, sendCounts, recv, recvCounts, displs))
}

func alltoallv[T any](x *coll, send []T, sendCounts []int, recv []T, recvCounts []int, displs [][]int) error {
	at, err := x.optional(displs, 1, 2)
	if err != nil {
		return err
	}
	in, err := x.partsOf("recv", recvCounts, at, sizeOf[T](), len(recv))
	if err != nil {
		return err
	}
	to := asBytes(recv)
	if send == nil && sendCounts == nil {
		return x.alltoallDirect(x.alltoallvUse(to), x.inPlace(to), to, in, in)
	}
	if at, err = x.optional(displs, 0, 2); err != nil {
		return err
	}
	out, err := x.partsOf("send", sendCounts, at, sizeOf[T](), len(send))
	if err != nil {
		return err
	}
	if err := x.checkLen("own part", recvCounts[x.rank], sendCounts[x.rank]); err != nil {
		return err
	}
	return x.alltoallDirect(x.alltoallvUse(to), asBytes(send), to, out, in)
}

// alltoallvUse selects the algorithm by the mean part that this rank receives. Without shared memory other ranks may
// select another one, because all direct algorithms send the same messages.
func (x *coll) alltoallvUse(recv []byte) algorithm {
	if x.nearby() {
		return algShared
	}
	return x.choose(alltoallRules, len(recv)/x.size, 0, true)
}

// alltoallDirect sends each part directly to its rank.
func (x *coll) alltoallDirect(use algorithm, send, recv []byte, out, in layout) error {
	if use == algShared {
		return x.swapParts(send, recv, out, in)
	}
	if use == algPairs {
		return x.alltoallPairs(send, recv, out, in)
	}
	return x.alltoallTogether(send, recv, out, in)
}

// alltoallTogether starts all sends and receives at once.
func (x *coll) alltoallTogether(send, recv []byte, out, in layout) error {
	x.copy(in.part(recv, x.rank), out.part(send, x.rank))
	return x.together(&parted{buf: recv, parts: in}, &parted{buf: send, parts: out})
}

// alltoallPairs exchanges parts with every rank in turn. In each round the ranks form pairs.
func (x *coll) alltoallPairs(send, recv []byte, out, in layout) error {
	x.copy(in.part(recv, x.rank), out.part(send, x.rank))
	for k := 1; k < x.size; k++ {
		dst, src := around(x.rank+k, x.size), around(x.rank-k, x.size)
		if err := x.swap(out.part(send, dst), dst, in.part(recv, src), src); err != nil {
			return err
		}
	}
	return nil
}

// alltoallBruck takes ceil(log2) rounds instead of one for each rank. In round k all parts whose
// remaining distance has bit k set travel 2^k ranks in one message. Each byte is sent about log2/2
// times.
func (x *coll) alltoallBruck(send, recv []byte, block int) error {
	n := x.size
	tmp := x.scratchBytes(3 * n * block)
	slots, pack, in := tmp[:n*block], tmp[n*block:2*n*block], tmp[2*n*block:]
	at := func(b []byte, i int) []byte { return b[i*block : (i+1)*block] }
	for i := range n { // slot i goes i ranks on
		x.copy(at(slots, i), at(send, around(x.rank+i, n)))
	}
	for k := 1; k < n; k <<= 1 {
		m := 0
		for i := k; i < n; i++ {
			if i&k != 0 {
				x.copy(at(pack, m), at(slots, i))
				m++
			}
		}
		if err := x.swap(pack[:m*block], around(x.rank+k, n), in[:m*block], around(x.rank-k, n)); err != nil {
			return err
		}
		m = 0
		for i := k; i < n; i++ {
			if i&k != 0 {
				x.copy(at(slots, i), at(in, m))
				m++
			}
		}
	}
	for i := range n { // slot i came from i ranks before
		x.copy(at(recv, around(x.rank-i, n)), at(slots, i))
	}
	return nil
}
