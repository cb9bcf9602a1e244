package skeleton

// Kind is the kind of a request.
type Kind byte

// The kinds of requests. Store, Up and Down have no answer, except an answer that the layer sends
// for its own purposes.
const (
	Store Kind = iota // bytes that the target counts
	Up                // a partial sum, to the parent in the tree
	Down              // the whole sum, to a child
	Add               // adds to the counter of rank 0; the answer is the counter's previous value
)

// Link carries the requests of a rank. Only the rank's process calls it.
type Link interface {
	// Request sends a request with a number of bytes of data. It waits for a credit, and meanwhile
	// handles arriving messages. The request calls Arrived at the other rank. The answer to an Add
	// calls Answered at this rank.
	Request(to int, kind Kind, value int32, size int) error
	// Await returns when a message has been handled, or when the state may have changed in another
	// way.
	Await() error
	// Poll handles arrived messages.
	Poll() error
	// Compute keeps the processor busy for a number of arithmetic operations.
	Compute(operations int) error
	// Segment is the maximum number of bytes of a request.
	Segment() int
}

// Rank is a process of a program.
type Rank struct {
	link      Link
	me, ranks int

	// Stores is the number of stores that the program has sent to other ranks, and Bytes is their
	// size in bytes.
	Stores, Bytes int

	sent, taken int // bytes of stores from this rank to others, and from others to this rank
	waited      int // the part of taken that StoreSync has waited for

	ups     int // children whose partial sums have arrived, and the total of these sums
	partial int32
	downs   int // complete sums that have arrived, and the last of these sums
	whole   int32

	counter  int32 // of rank 0
	answered bool
	answer   int32
}

// New returns a rank whose requests the link carries. A program of one rank sends none.
func New(link Link, rank, ranks int) *Rank { return &Rank{link: link, me: rank, ranks: ranks} }

// Arrived processes a request of another rank, and returns the answer to an Add.
func (r *Rank) Arrived(kind Kind, value int32, size int) (answer int32) {
	switch kind {
	case Store:
		r.taken += size
	case Up:
		r.ups++
		r.partial += value
	case Down:
		r.downs++
		r.whole = value
	case Add:
		answer = r.counter
		r.counter += value
	}
	return answer
}

// Answered takes the answer to an Add.
func (r *Rank) Answered(value int32) { r.answered, r.answer = true, value }

// store stores a number of blocks of the same size, divided into the segments of the link.
func (r *Rank) store(to, blocks, size int) error {
	r.Stores++
	r.Bytes += blocks * size
	r.sent += blocks * size
	for range blocks {
		for left := size; left > 0; left -= r.link.Segment() {
			if err := r.link.Request(to, Store, 0, min(left, r.link.Segment())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Rank) until(so func() bool) error {
	for !so() {
		if err := r.link.Await(); err != nil {
			return err
		}
	}
	return nil
}

// storeSync waits until other ranks have stored a number of additional bytes into this rank.
func (r *Rank) storeSync(size int) error {
	r.waited += size
	return r.until(func() bool { return r.taken >= r.waited })
}

// sum adds up the values of all ranks, along a binary tree to rank 0 and back.
func (r *Rank) sum(v int32) (int32, error) {
	children := min(2, max(0, r.ranks-1-2*r.me))
	if err := r.until(func() bool { return r.ups == children }); err != nil {
		return 0, err
	}
	v += r.partial
	r.ups, r.partial = 0, 0
	if r.me > 0 {
		if err := r.link.Request((r.me-1)/2, Up, v, 4); err != nil {
			return 0, err
		}
		if err := r.until(func() bool { return r.downs > 0 }); err != nil {
			return 0, err
		}
		v = r.whole
		r.downs--
	}
	for child := range children {
		if err := r.link.Request(2*r.me+1+child, Down, v, 4); err != nil {
			return 0, err
		}
	}
	return v, nil
}

// Barrier waits for all ranks.
func (r *Rank) Barrier() error {
	_, err := r.sum(0)
	return err
}

// allStoreSync waits until all stores of all ranks have arrived: until the total number of received
// bytes equals the total number of sent bytes.
func (r *Rank) allStoreSync() error {
	for {
		if err := r.link.Poll(); err != nil {
			return err
		}
		under, err := r.sum(int32(r.sent - r.taken))
		if err != nil || under == 0 {
			return err
		}
	}
}

// next takes a number from the counter of rank 0.
func (r *Rank) next() (int, error) {
	if r.me == 0 {
		return int(r.Arrived(Add, 1, 0)), nil
	}
	r.answered = false
	if err := r.link.Request(0, Add, 1, 4); err != nil {
		return 0, err
	}
	err := r.until(func() bool { return r.answered })
	return int(r.answer), err
}

// share is the range of n consecutive elements that a rank has.
func share(n, ranks, rank int) (lo, hi int) { return n * rank / ranks, n * (rank + 1) / ranks }
