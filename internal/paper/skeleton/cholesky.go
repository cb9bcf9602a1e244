package skeleton

// block is the side of a block of the matrix that Cholesky factors. An element has 8 bytes.
const block = 16

// Cholesky factors a matrix of N rows, in blocks that lie on Down x Over positions.
type Cholesky struct{ N, Down, Over int }

// owner is the rank that has a block.
func (a Cholesky) owner(i, j, ranks int) int { return (i%a.Down*a.Over + j%a.Over) % ranks }

// Run is one rank's part.
func (a Cholesky) Run(r *Rank) error {
	if err := r.Barrier(); err != nil {
		return err
	}
	for k := range a.N / block {
		if err := a.step(r, k); err != nil {
			return err
		}
	}
	return nil
}

// step processes column k of the blocks: the diagonal block, the column, and all blocks to the
// right of the column.
func (a Cholesky) step(r *Rank, k int) error {
	n := a.N / block
	count := make([]int, r.ranks) // number of blocks of each rank below the diagonal
	for i := k + 1; i < n; i++ {
		count[a.owner(i, k, r.ranks)]++
	}
	corner := a.owner(k, k, r.ranks)
	if corner == r.me {
		if err := r.link.Compute(block * block * block / 3); err != nil {
			return err
		}
		if err := a.tell(r, 1, func(rank int) bool { return count[rank] > 0 }); err != nil {
			return err
		}
	}
	if count[corner] < n-k-1 {
		if err := r.allStoreSync(); err != nil {
			return err
		}
	}
	if err := r.link.Compute(count[r.me] * block * block * block); err != nil {
		return err
	}
	if err := a.tell(r, count[r.me], func(int) bool { return true }); err != nil {
		return err
	}
	if err := r.allStoreSync(); err != nil {
		return err
	}
	return a.subtract(r, k)
}

// subtract processes this rank's blocks to the right of column k, row by row.
func (a Cholesky) subtract(r *Rank, k int) error {
	for i := k + 1; i < a.N/block; i++ {
		mine := 0
		for j := k + 1; j <= i; j++ {
			if a.owner(i, j, r.ranks) == r.me {
				mine++
			}
		}
		if err := r.link.Compute(mine * 2 * block * block * block); err != nil {
			return err
		}
		if err := r.link.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// tell stores a number of blocks to each rank that wants them.
func (a Cholesky) tell(r *Rank, blocks int, wants func(rank int) bool) error {
	for i := 1; i < r.ranks && blocks > 0; i++ {
		if to := (r.me + i) % r.ranks; wants(to) {
			if err := r.store(to, 1, 8*block*block*blocks); err != nil {
				return err
			}
		}
	}
	return nil
}
