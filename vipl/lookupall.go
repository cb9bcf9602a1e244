package vipl

import (
	"context"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
)

// LookupAllTime is how long LookupAll listens without a deadline.
const LookupAllTime = 50 * time.Millisecond

// MaxAnswers is the most addresses that LookupAll returns.
const MaxAnswers = 16

// survey is a question for everybody who answers to a name.
type survey struct {
	name  string
	found []ethertype.Addr
	gate  progress.Gate
}

// LookupAll asks the segment for a name, as Lookup does, and returns the addresses
// of all other NICs that answer to it, in order, MaxAnswers at the most: names are
// to be unique there, and this finds out whether one is. It asks several times,
// because frames are lost, until ctx ends or for LookupAllTime without a deadline.
// No answer is no error. What this NIC advertises itself is not among the answers.
//
// The error is ErrTimeout and the context's when ctx was cancelled; what was found
// until then is returned with it.
func (n *NIC) LookupAll(ctx context.Context, name string) ([]ethertype.Addr, error) {
	if name == "" || len(name) > MaxName {
		return nil, opError("look up", ErrInvalidParameter, "a name has 1..%d bytes, this one has %d", MaxName, len(name))
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := n.namesUp("look up"); err != nil {
		return nil, err
	}
	nonce, s := n.random.uint64(), &survey{name: name}
	n.names.surveys[nonce] = s
	defer delete(n.names.surveys, nonce)
	end := n.link.Now() + int64(n.eng.Left(ctx, LookupAllTime))
	var err error
	for interval := askFirst; err == nil && n.link.Now() < end && n.eng.Ended(ctx) == nil; interval = min(2*interval, askMax) {
		n.sendControl(ethertype.Header{Dst: ethertype.Broadcast, Kind: ethertype.KindQuery, SrcPort: n.addr.Port, Sack: nonce}, []byte(name))
		n.tx.flush(n)
		err = n.collect(ctx, &s.gate, min(n.link.Now()+interval, end))
	}
	slices.SortFunc(s.found, compareAddr)
	return s.found, err
}

// answered takes an answer to a survey and reports whether it is one.
func (t *nameTable) answered(nonce uint64, name string, addr ethertype.Addr, n *NIC) bool {
	s := t.surveys[nonce]
	if s == nil || s.name != name {
		return false
	}
	if !slices.Contains(s.found, addr) && len(s.found) < MaxAnswers {
		s.found = append(s.found, addr)
	}
	s.gate.Open(&n.eng)
	return true
}
