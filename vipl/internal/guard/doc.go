// Package guard protects a NIC against unverified senders. It has unpredictable numbers, tokens by
// which a requester proves its address, and a limit on the rate of answers to unverified frames. It
// does not depend on connections.
//
// Nothing here is safe for concurrent use; the NIC's lock guards it.
package guard

// Strangers is a NIC's protection against unverified senders.
type Strangers struct {
	Random  Random
	Tokens  Mint
	Answers Budget
}

// Printable makes text from the wire safe to print.
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
