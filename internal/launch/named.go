package launch

import (
	"fmt"
	"regexp"
	"sync"

	"github.com/bobnet-go/bobnet/ethertype"
)

// named notes which other host the errors of each rank name by a MAC address. A rank knows its
// peers by their addresses only; the head knows which host has which address.
type named struct {
	hosts map[ethertype.MAC]string // of the interfaces that ranks use
	own   []string                 // the host of each rank

	mu   sync.Mutex
	last map[int]Named // by rank
}

// Named is another host whose MAC address the last error of a rank contains.
type Named struct {
	Host, MAC string
	own       string
}

// newNamed returns a named for hosts that have answered, with the place among answers of each rank.
func newNamed(answers []Answer, seats []int) *named {
	n := &named{hosts: map[ethertype.MAC]string{}, last: map[int]Named{}}
	for _, a := range answers {
		if mac, err := ethertype.ParseMAC(a.Inv.MAC); err == nil {
			n.hosts[mac] = a.Host.Name
		}
	}
	for _, i := range seats {
		n.own = append(n.own, answers[i].Host.Name)
	}
	return n
}

// aMAC matches a MAC address in a text.
var aMAC = regexp.MustCompile(`\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b`)

// note takes a line that a rank has printed to its standard error.
func (n *named) note(rank int, line []byte) {
	if rank < 0 || rank >= len(n.own) {
		return
	}
	for _, text := range aMAC.FindAll(line, -1) {
		mac, err := ethertype.ParseMAC(string(text))
		if host := n.hosts[mac]; err == nil && host != "" && host != n.own[rank] {
			n.mu.Lock()
			n.last[rank] = Named{host, mac.String(), n.own[rank]}
			n.mu.Unlock()
		}
	}
}

// by returns the host that a rank's errors name; the zero Named if they name none.
func (n *named) by(rank int) Named {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last[rank]
}

// add adds the host to an error text.
func (n Named) add(text string) string {
	if n.Host == "" {
		return text
	}
	return text + fmt.Sprintf("; its last error names %s, which is host %s (if frames between these hosts are lost, this shows it: bobnet doctor --host %s,%s)", n.MAC, n.Host, n.own, n.Host)
}
