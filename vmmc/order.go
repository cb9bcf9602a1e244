package vmmc

// A message that is longer than a frame becomes visible in parts, in any order. So that
// programs can take its last word for the sign that all of it is there, it is sent as up
// to three writes, which become visible one after the other: the bytes before the first
// aligned word, so that no word is cut in two by frames; the words; and the last word, with
// what is behind it.

// part is a piece of a message.
type part struct{ from, size int }

const orderWord = 8

// cut returns the parts of a message of n bytes to an address that is at modulo 8, where
// frame bytes go at once.
func cut(at uint64, n, frame int) (parts [3]part, count int) {
	add := func(from, size int) {
		if size > 0 {
			parts[count] = part{from, size}
			count++
		}
	}
	if n <= frame {
		parts[0] = part{0, n}
		return parts, 1
	}
	head := int(-at % orderWord)
	end := (at + uint64(n)) % orderWord
	tail := int(end)
	if tail == 0 {
		tail = orderWord
	} else {
		tail += orderWord // the last whole word, too
	}
	add(0, head)
	add(head, n-head-tail)
	add(n-tail, tail)
	return parts, count
}
