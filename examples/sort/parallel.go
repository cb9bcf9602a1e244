package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/mplite"
)

// portion is a range of the input.
type portion struct{ first, count int }

// share returns the part of n integers that a rank starts with.
func share(n, ranks, rank int) portion {
	first := n * rank / ranks
	return portion{first, n*(rank+1)/ranks - first}
}

var errNotSorted = errors.New("the result is wrong")

// sortAll sorts rank 0's data over all ranks of comm. Each rank returns its part of the result; the
// parts in the order of ranks are the sorted data.
func sortAll(ctx context.Context, comm *mplite.Comm, data []int64) ([]int64, error) {
	mine, err := deal(ctx, comm, data)
	if err != nil {
		return nil, err
	}
	before := checksum(mine.data)
	slices.Sort(mine.data)
	keys, err := chooseSplitters(ctx, comm, mine)
	if err != nil {
		return nil, err
	}
	sorted, err := exchange(ctx, comm, mine, keys)
	if err != nil {
		return nil, err
	}
	return sorted, verify(ctx, comm, sorted, before)
}

// deal gives each rank its share of rank 0's data.
func deal(ctx context.Context, comm *mplite.Comm, data []int64) (part, error) {
	n := []int64{int64(len(data))}
	if err := mplite.Bcast(ctx, comm, n, 0); err != nil {
		return part{}, err
	}
	counts := make([]int, comm.Size())
	for r := range counts {
		counts[r] = share(int(n[0]), comm.Size(), r).count
	}
	s := share(int(n[0]), comm.Size(), comm.Rank())
	mine := make([]int64, s.count)
	err := mplite.Scatterv(ctx, comm, data, counts, mine, 0)
	return part{mine, int64(s.first)}, err
}

// chooseSplitters gathers samples from all ranks on all ranks, which then choose the same
// splitters.
func chooseSplitters(ctx context.Context, comm *mplite.Comm, mine part) ([]key, error) {
	ranks := comm.Size()
	var flat []int64
	for _, k := range mine.samples(ranks) {
		flat = append(flat, k.value, k.place)
	}
	counts := make([]int64, ranks)
	if err := mplite.Allgather(ctx, comm, []int64{int64(len(flat))}, counts); err != nil {
		return nil, err
	}
	all := make([]int64, total(counts))
	if err := mplite.Allgatherv(ctx, comm, flat, all, ints(counts)); err != nil {
		return nil, err
	}
	samples := make([]key, 0, len(all)/2)
	for i := 0; i < len(all); i += 2 {
		samples = append(samples, key{all[i], all[i+1]})
	}
	return splitters(samples, ranks), nil
}

// exchange sends each rank the integers between its splitters, and merges the received ones.
func exchange(ctx context.Context, comm *mplite.Comm, mine part, keys []key) ([]int64, error) {
	ranks := comm.Size()
	sending, receiving := make([]int64, ranks), make([]int64, ranks)
	counts := mine.counts(keys, ranks)
	for r, n := range counts {
		sending[r] = int64(n)
	}
	if err := mplite.Alltoall(ctx, comm, sending, receiving); err != nil {
		return nil, err
	}
	runs := ints(receiving)
	got := make([]int64, total(receiving))
	if err := mplite.Alltoallv(ctx, comm, mine.data, counts, got, runs); err != nil {
		return nil, err
	}
	return merge(got, runs), nil
}

// verify checks that the parts are sorted, each and one after another, and hold the original
// integers: the same number with the same checksum. All ranks return the same result.
func verify(ctx context.Context, comm *mplite.Comm, sorted []int64, before uint64) error {
	ends := []int64{0, 0, int64(len(sorted))} // first, last, number
	if len(sorted) > 0 {
		ends[0], ends[1] = sorted[0], sorted[len(sorted)-1]
	}
	all := make([]int64, 3*comm.Size())
	if err := mplite.Allgather(ctx, comm, ends, all); err != nil {
		return err
	}
	sums := []uint64{before, checksum(sorted), 0} // before, after, ranks out of order
	if !slices.IsSorted(sorted) {
		sums[2] = 1
	}
	totals := make([]uint64, len(sums))
	if err := mplite.Allreduce(ctx, comm, sums, totals, mplite.Sum[uint64]()); err != nil {
		return err
	}
	switch {
	case totals[0] != totals[1]:
		return fmt.Errorf("%w: checksum %#x became %#x", errNotSorted, totals[0], totals[1])
	case totals[2] > 0 || !inOrder(all):
		return fmt.Errorf("%w: it is not sorted", errNotSorted)
	}
	return nil
}

// inOrder reports whether no part, given as first, last and number, begins below the end of the
// part before it. It ignores empty parts.
func inOrder(ends []int64) bool {
	var last *int64
	for ; len(ends) >= 3; ends = ends[3:] {
		if ends[2] == 0 {
			continue
		}
		if last != nil && ends[0] < *last {
			return false
		}
		last = &ends[1]
	}
	return true
}

// collect calls write on rank 0 with each rank's part, in order. Parts are sent one at a time, so
// that rank 0 holds only one of them.
func collect(ctx context.Context, comm *mplite.Comm, sorted []int64, write func([]int64) error) error {
	const tag = 1
	if comm.Rank() != 0 {
		return mplite.Send(ctx, comm, sorted, 0, tag)
	}
	if err := write(sorted); err != nil {
		return err
	}
	for r := 1; r < comm.Size(); r++ {
		st, err := comm.Probe(ctx, r, tag)
		if err != nil {
			return err
		}
		part := make([]int64, st.Count/8)
		if _, err := mplite.Recv(ctx, comm, part, r, tag); err != nil {
			return err
		}
		if err := write(part); err != nil {
			return err
		}
	}
	return nil
}

func total(counts []int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func ints(counts []int64) []int {
	out := make([]int, len(counts))
	for i, n := range counts {
		out[i] = int(n)
	}
	return out
}
