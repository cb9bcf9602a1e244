package skeleton

// Kind says what a request is for.
type Kind byte

// The kinds of requests. A store and the messages of a sum have no answer but what the
// layer gives for its own purposes.
const (
	Store Kind = iota // bytes that the target counts
	Up                // a partial sum, to the parent in the tree
	Down              // the whole sum, to a child
	Add               // adds to the counter of rank 0, and is answered by what that was
)

// Link carries the requests of a rank. All its calls are made by the rank's process.
type Link interface {
	// Request sends a request, with so many bytes of data, when it has a credit, and
	// handles meanwhile what comes. The other rank's Arrived is called. The answer to an Add
	// goes to this rank's Answered.
	Request(to int, kind Kind, value int32, size int) error
	// Await returns when something has been handled, or may have changed otherwise.
	Await() error
	// Poll handles what has come.
	Poll() error
	// Compute has the processor be busy with so many arithmetic operations.
	Compute(operations int) error
	// Segment is the most bytes of a request.
	Segment() int
}

// Rank is a process of a program.
type Rank struct {
	link      Link
	me, ranks int

	// Stores counts what the program has stored into other ranks, and Bytes of how many
	// bytes.
	Stores, Bytes int

	sent, taken int // bytes of stores, of this rank to others and of others to it
	waited      int // of those taken, the ones that StoreSync has waited for

	ups     int // children whose partial sums have come, and what these are together
	partial int32
	downs   int // whole sums that have come, and the last one
	whole   int32

	counter  int32 // of rank 0
	answered bool
	answer   int32
}

// New returns a rank whose requests the link carries. A program of one rank sends none.
func New(link Link, rank, ranks int) *Rank { return &Rank{link: link, me: rank, ranks: ranks} }

// Arrived does what a request of another rank is for, and returns the answer to an Add.
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

// store stores blocks of so many bytes each, in the segments of the link.
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

// storeSync waits until others have stored so many bytes more into this rank.
func (r *Rank) storeSync(size int) error {
	r.waited += size
	return r.until(func() bool { return r.taken >= r.waited })
}

// sum adds up what all ranks have, along a binary tree to rank 0 and back.
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

// allStoreSync waits until all that ranks have stored is where it was to go: until as many
// bytes have come, on all ranks together, as were sent.
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

// share is the range that a rank has of n things in a row.
func share(n, ranks, rank int) (lo, hi int) { return n * rank / ranks, n * (rank + 1) / ranks }
