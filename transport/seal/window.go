package seal

// windowWords is how many words of bits a window has; they are used in turn.
const windowWords = 64

// windowBits is how far behind the highest counter one may be that is judged still: more
// than a link reorders. One word is being filled, and so cannot tell (RFC 6479).
const windowBits = (windowWords - 1) * 64

// window knows which counters of a session have been seen: those of the last windowBits,
// by a bit each. The zero window has seen none. Who forges frames must not move it, so it
// is asked and told only about frames whose tag is right.
type window struct {
	next uint64 // one more than the highest that has been seen
	bits [windowWords]uint64
}

// take reports whether counter n, less than maxCounter, is new, and takes it as seen. One
// that lies so far behind that it cannot be told counts as seen.
func (w *window) take(n uint64) bool {
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

// advance makes next, which is more than it was, the counter after the highest one.
func (w *window) advance(next uint64) {
	from, to := (w.next+63)/64, (next-1)/64 // the words that come into use
	if to-from >= windowWords && to >= from {
		w.bits = [windowWords]uint64{}
	} else {
		for i := from; i <= to; i++ {
			w.bits[i%windowWords] = 0
		}
	}
	w.next = next
}
