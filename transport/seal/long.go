package seal

import "github.com/bobnet-go/bobnet/ethertype"

// A long frame is sealed whole, as all others are. So it is fetched from the link within
// before it is opened, and who gets it fetches it from here.

// StartLong implements transport.LongLink: what the wrapped link says.
func (l *Link) StartLong() bool {
	if !l.long.Start() {
		return false
	}
	l.limit = max(l.limit, ethertype.LongMTU+ethertype.EthernetSize)
	return true
}

// Rest implements transport.LongLink.
func (l *Link) Rest() int { return l.long.Rest() }

// Fetch implements transport.LongLink.
func (l *Link) Fetch(from int, parts [][]byte) bool { return l.long.Fetch(from, parts) }
