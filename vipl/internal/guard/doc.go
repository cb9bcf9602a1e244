// Package guard has what a NIC knows strangers by: numbers that nobody can guess, tokens
// by which a requester proves its address, and a bound on how often anybody is answered
// who has proven nothing. It knows no connections.
//
// Nothing here is safe for use by several goroutines; the NIC's lock guards it.
package guard

// Strangers is what a NIC has against whoever is on the segment.
type Strangers struct {
	Random  Random
	Tokens  Mint
	Answers Budget
}

// Printable makes text from the wire safe to show.
func Printable(b []byte) string {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c < ' ' || c > '~' {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}
