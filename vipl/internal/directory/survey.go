package directory

import (
	"context"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// LookupAllTime is how long LookupAll waits without a deadline.
const LookupAllTime = 50 * time.Millisecond

// MaxAnswers is the maximum number of addresses that LookupAll returns.
const MaxAnswers = 16

// survey is a query for all NICs that answer to a name.
type survey struct {
	name  string
	found []ethertype.Addr
	gate  progress.Gate
}

// LookupAll broadcasts a query for a name and returns the addresses of all other NICs that answer,
// sorted, at most MaxAnswers. It repeats the query, because frames may be lost, until ctx ends or
// for LookupAllTime without a deadline.
func (d *Directory) LookupAll(ctx context.Context, name string) ([]ethertype.Addr, error) {
	if name == "" || len(name) > MaxName {
		return nil, code.Error("look up", code.ErrArgument, "a name has 1..%d bytes, this one has %d", MaxName, len(name))
	}
	if err := d.up("look up"); err != nil {
		return nil, err
	}
	nonce, s := d.random.Uint64(), &survey{name: name}
	d.names.surveys[nonce] = s
	defer delete(d.names.surveys, nonce)
	end := d.nic.Now() + int64(d.eng.Left(ctx, LookupAllTime))
	var err error
	for interval := askFirst; err == nil && d.nic.Now() < end && d.eng.Ended(ctx) == nil; interval = min(2*interval, askMax) {
		d.nic.Send(ethertype.Header{Dst: ethertype.Broadcast, Kind: ethertype.KindQuery, SrcPort: d.self.Addr.Port, Sack: nonce}, []byte(name))
		d.nic.Flush()
		err = d.collect(ctx, &s.gate, min(d.nic.Now()+interval, end))
	}
	slices.SortFunc(s.found, ethertype.Addr.Compare)
	return s.found, err
}

// answered processes an answer to a survey and reports whether it is one.
func (d *Directory) answered(nonce uint64, name string, addr ethertype.Addr) bool {
	s := d.names.surveys[nonce]
	if s == nil || s.name != name {
		return false
	}
	if !slices.Contains(s.found, addr) && len(s.found) < MaxAnswers {
		s.found = append(s.found, addr)
	}
	s.gate.Open(d.eng)
	return true
}
