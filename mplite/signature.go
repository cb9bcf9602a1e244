package mplite

// Collective names a collective operation in Stats.
type Collective uint8

// The collectives, indices of Stats.Collectives.
const (
	collBarrier Collective = iota
	collBcast
	collReduce
	collAllreduce
	collGather
	collScatter
	collAllgather
	collAlltoall
	collReduceScatter
	collScan
	collExscan
	numCollectives
)

var collectiveNames = [numCollectives]string{
	"barrier", "bcast", "reduce", "allreduce", "gather", "scatter",
	"allgather", "alltoall", "reduce_scatter", "scan", "exscan",
}

// String returns the name as metrics use it.
func (k Collective) String() string { return collectiveNames[k] }

// call is a collective function. Those with counts for each rank are functions of
// their own, since their ranks cannot talk with those of the plain ones. So are those
// that make communicators, by several collectives each; see Comm.within.
type call uint8

const (
	callBarrier call = iota + 1
	callBcast
	callReduce
	callAllreduce
	callGather
	callGatherv
	callScatter
	callScatterv
	callAllgather
	callAllgatherv
	callAlltoall
	callAlltoallv
	callReduceScatter
	callScan
	callExscan
	callSplit
	callDup
	callCommCreate
	callCartCreate
	callCartSub
	numCalls
)

var calls = [numCalls]struct {
	name       string
	collective Collective
}{
	callBarrier:       {"barrier", collBarrier},
	callBcast:         {"bcast", collBcast},
	callReduce:        {"reduce", collReduce},
	callAllreduce:     {"allreduce", collAllreduce},
	callGather:        {"gather", collGather},
	callGatherv:       {"gatherv", collGather},
	callScatter:       {"scatter", collScatter},
	callScatterv:      {"scatterv", collScatter},
	callAllgather:     {"allgather", collAllgather},
	callAllgatherv:    {"allgatherv", collAllgather},
	callAlltoall:      {"alltoall", collAlltoall},
	callAlltoallv:     {"alltoallv", collAlltoall},
	callReduceScatter: {"reduce_scatter", collReduceScatter},
	callScan:          {"scan", collScan},
	callExscan:        {"exscan", collExscan},
	callSplit:         {name: "split"}, // counted as what it is made of, and so are those below
	callDup:           {name: "dup"},
	callCommCreate:    {name: "comm_create"},
	callCartCreate:    {name: "cart_create"},
	callCartSub:       {name: "cart_sub"},
}

func (k call) String() string         { return calls[k].name }
func (k call) collective() Collective { return calls[k].collective }

// composed reports whether the call is made of several collectives, whose elements
// and operations are not the user's.
func (k call) composed() bool { return k >= callSplit }

// signature is what has to be equal at all ranks of a collective call.
type signature struct {
	call call
	op   opCode
	root int
	size int // bytes; 0 where ranks may differ in it
	typ  *element
}

// within returns c for the collectives that a call is made of: other ranks, and errors,
// hear of the call that the user has made.
func (c *Comm) within(k call) *Comm {
	if c.outer != 0 { // itself within another one
		return c
	}
	inner := *c
	inner.outer = k
	return &inner
}

// sign returns the signature of a call with n elements of T.
func sign[T any](k call, root int, op opCode, n int) signature {
	return signature{call: k, op: op, root: root, size: n * sizeOf[T](), typ: elementOf[T]()}
}
