package mplite

// The selection of algorithms. The package comment has the same table; TestSelection compares. The sizes were
// measured by `bobnet perf --collectives` on 2 and 4 ranks (docs/performance.md); the rules for 8 and more
// ranks use the limits of other MPI implementations. The rules for shared hosts were measured in virtual time,
// on 2 to 8 hosts of 2 to 4 ranks each. In these measurements messages within a host take no time.

// algorithm is how a collective moves its data.
type algorithm string

const (
	algShared        algorithm = "shared memory"
	algHosts         algorithm = "two levels"
	algDissemination algorithm = "dissemination"
	algBinomial      algorithm = "binomial tree"
	algScatterRing   algorithm = "scatter and ring allgather (van de Geijn)"
	algHalvingGather algorithm = "recursive halving, gather"
	algDoubling      algorithm = "recursive doubling"
	algRing          algorithm = "ring"
	algReduceRing    algorithm = "ring reduce-scatter and allgather"
	algRabenseifner  algorithm = "recursive halving and doubling (Rabenseifner)"
	algDirect        algorithm = "direct"
	algBruck         algorithm = "Bruck"
	algTogether      algorithm = "all messages at once"
	algPairs         algorithm = "pairwise exchange"
	algHalving       algorithm = "recursive halving"
	algAllreduce     algorithm = "allreduce, own part kept"
)

// rule selects an algorithm for the calls that meet all of its conditions.
type rule struct {
	use   algorithm
	from  int // minimum number of bytes
	below int // the number of bytes is smaller than this; 0 means no limit
	ranks int // minimum number of ranks
	under int // the number of ranks is smaller than this; 0 means no limit

	near     bool // the ranks share memory: see coll.nearby
	hosts    bool // ranks share hosts: see coll.shares
	mixed    bool // ranks share hosts, and the ranks of at least one host do not follow one another
	pow2     bool // the number of ranks is a power of two
	commutes bool // the operation is commutative
	split    bool // the vector has at least one element for each rank
}

// The rules of each collective with several algorithms. The first rule that applies counts, and the
// last one always applies.
var (
	barrierRules = []rule{
		{use: algShared, near: true},
		{use: algHosts, hosts: true},
		{use: algDoubling, pow2: true},
		{use: algDissemination},
	}
	bcastRules = []rule{ // bytes of the message
		{use: algShared, below: 64 << 10, near: true},
		{use: algHosts, hosts: true},
		{use: algScatterRing, from: 512 << 10, ranks: 8},
		{use: algBinomial},
	}
	reduceRules = []rule{ // bytes of the vector
		{use: algShared, below: 64 << 10, near: true},
		{use: algHosts, hosts: true},
		{use: algHalvingGather, from: 128 << 10, ranks: 3, split: true},
		{use: algBinomial},
	}
	allreduceRules = []rule{ // bytes of the vector
		{use: algShared, below: 64 << 10, near: true},
		{use: algHosts, below: 64 << 10, hosts: true},
		{use: algHosts, hosts: true, mixed: true},
		{use: algDoubling, below: 64 << 10},
		{use: algDoubling, below: 128 << 10, under: 3},
		{use: algRabenseifner, pow2: true, split: true},
		{use: algReduceRing, from: 256 << 10, commutes: true, split: true},
		{use: algRabenseifner, split: true},
		{use: algDoubling},
	}
	gatherRules = []rule{ // bytes of a part; also of Scatter
		{use: algShared, below: 32 << 10, near: true},
		{use: algHosts, below: 4 << 10, hosts: true},
		{use: algBinomial, below: 4 << 10, ranks: 3},
		{use: algBinomial, below: 8 << 10, ranks: 8},
		{use: algDirect},
	}
	allgatherRules = []rule{ // bytes of all parts together
		{use: algShared, below: 128 << 10, near: true},
		{use: algHosts, below: 64 << 10, hosts: true},
		{use: algTogether, under: 9},
		{use: algDoubling, below: 512 << 10, pow2: true},
		{use: algBruck, below: 32 << 10},
		{use: algRing},
	}
	alltoallRules = []rule{ // bytes of a part
		{use: algShared, below: 32 << 10, near: true},
		{use: algBruck, below: 512, ranks: 8},
		{use: algTogether, under: 9},
		{use: algTogether, below: 32 << 10},
		{use: algPairs},
	}
	reduceScatterRules = []rule{ // bytes of the vector
		{use: algShared, below: 128 << 10, near: true, commutes: true},
		{use: algHalving, below: 512 << 10, commutes: true},
		{use: algPairs, commutes: true},
		{use: algAllreduce},
	}
	scanRules = []rule{ // bytes of the vector; also of Exscan
		{use: algShared, below: 64 << 10, near: true},
		{use: algDoubling},
	}
)

// choose returns the algorithm for a call with a vector of elems elements. It returns the same on
// all ranks.
func (x *coll) choose(rules []rule, bytes, elems int, commutes bool) algorithm {
	return x.chooseOf(rules, bytes, elems, commutes, true)
}

// chooseFlat is choose without the algorithms in two levels.
func (x *coll) chooseFlat(rules []rule, bytes int) algorithm {
	return x.chooseOf(rules, bytes, 0, true, false)
}

func (x *coll) chooseOf(rules []rule, bytes, elems int, commutes, levels bool) algorithm {
	for i := range rules {
		r := &rules[i]
		if r.applies(x.size, bytes, elems, commutes) && (!r.hosts || levels && x.shares(commutes, r.mixed)) && (!r.near || x.nearby()) {
			return r.use
		}
	}
	panic("mplite: no rule applies")
}

func (r *rule) applies(ranks, bytes, elems int, commutes bool) bool {
	switch {
	case bytes < r.from, r.below > 0 && bytes >= r.below, ranks < r.ranks, r.under > 0 && ranks >= r.under:
		return false
	case r.pow2 && ranks != floorPow2(ranks), r.commutes && !commutes, r.split && elems < ranks:
		return false
	}
	return true
}
