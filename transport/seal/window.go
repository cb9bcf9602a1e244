package seal

// windowWords is the number of words of bits in a window, which are used in turn.
const windowWords = 64

// windowBits is how far a counter may be behind the highest one and still be checked. It exceeds
// the reordering of any link. One word is being filled and does not count (RFC 6479).
const windowBits = (windowWords - 1) * 64

// window records which of the last windowBits counters of a session have been seen, one bit each.
// The zero window has seen none. Callers must verify the tag of a frame first, so that forged
// frames cannot move the window.
type window struct {
	next uint64 // one more than the highest counter seen
	bits [windowWords]uint64
}

// recordNew reports whether counter n, less than maxCounter, is new, and records it. A counter that is
// too old to check is not new.
func (w *window) recordNew(n uint64) bool {
	if n >= w.next {
		w.advance(n + 1)
	} else if w.next-n > windowBits {
		return false
	}
	word, bit := &w.bits[n/64%windowWords], uint64(1)<<(n%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// advance sets next, the counter after the highest one, to a larger value.
func (w *window) advance(next uint64) {
	from, to := (w.next+63)/64, (next-1)/64 // the words to reuse
	if to-from >= windowWords && to >= from {
		w.bits = [windowWords]uint64{}
	} else {
		for i := from; i <= to; i++ {
			w.bits[i%windowWords] = 0
		}
	}
	w.next = next
}
