package main

import (
	"cmp"
	"slices"
)

// key orders integers that may be equal: by value, then by position in the whole input. No two keys
// are equal, so splitters also divide runs of one value, and no rank gets more than about twice its
// share, whatever the input.
type key struct{ value, place int64 }

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.value, other.value), cmp.Compare(k.place, other.place))
}

// part is a rank's sorted share of the input. Its i-th integer counts as being at position first+i.
// This may differ from its position in the input, but it is unique and grows with i, which is
// sufficient for keys.
type part struct {
	data  []int64
	first int64 // position of the rank's first integer in the input
}

func (p part) key(i int) key { return key{p.data[i], p.first + int64(i)} }

// samples returns n keys at regular distances, or all if there are fewer.
func (p part) samples(n int) []key {
	n = min(n, len(p.data))
	keys := make([]key, n)
	for i := range keys {
		keys[i] = p.key(i * len(p.data) / n)
	}
	return keys
}

// splitters returns ranks-1 keys out of all samples. Rank r gets the integers from splitter r-1,
// inclusive, to splitter r, exclusive.
func splitters(samples []key, ranks int) []key {
	samples = slices.Clone(samples)
	slices.SortFunc(samples, key.compare)
	keys := make([]key, 0, ranks-1)
	for r := 1; r < ranks && len(samples) > 0; r++ {
		keys = append(keys, samples[r*len(samples)/ranks])
	}
	return keys
}

// counts returns how many of p's integers go to each rank.
func (p part) counts(splitters []key, ranks int) []int {
	out := make([]int, ranks)
	from := 0
	for r := range out {
		to := len(p.data)
		if r < len(splitters) {
			to = p.search(splitters[r])
		}
		out[r] = to - from
		from = to
	}
	return out
}

// search returns the index of the first integer of p not below k.
func (p part) search(k key) int {
	lo, hi := 0, len(p.data)
	for lo < hi {
		if mid := (lo + hi) / 2; p.key(mid).compare(k) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// merge merges sorted consecutive runs in data, pair by pair, and returns the result, which may be
// data.
func merge(data []int64, runs []int) []int64 {
	spare := make([]int64, len(data))
	for len(runs) > 1 {
		var merged []int
		from := 0
		for i := 0; i < len(runs); i += 2 {
			n := runs[i]
			if i+1 < len(runs) {
				n += runs[i+1]
			}
			mergeTwo(spare[from:from+n], data[from:from+runs[i]], data[from+runs[i]:from+n])
			merged = append(merged, n)
			from += n
		}
		data, spare, runs = spare, data, merged
	}
	return data
}

func mergeTwo(out, a, b []int64) {
	for i := range out {
		if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
			out[i], a = a[0], a[1:]
		} else {
			out[i], b = b[0], b[1:]
		}
	}
}

// checksum adds up a hash of every integer. It is the same for two collections with the same
// integers, in any order. For others it differs, except with a probability of 2^-64.
func checksum(data []int64) uint64 {
	var sum uint64
	for _, v := range data {
		x := uint64(v) + 0x9e3779b97f4a7c15 // SplitMix64
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		sum += x ^ x>>31
	}
	return sum
}
