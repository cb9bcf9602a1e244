package handshake

import (
	"cmp"
	"fmt"

	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// agreed lists the terms that must be equal on both sides, in the order of the codes from
// rejectReliability on.
var agreed = [...]struct {
	name  string
	err   error // if they differ
	value func(t *Terms) any
}{
	{"Reliability", code.ErrInvalidReliability, func(t *Terms) any { return t.Reliability }},
	{"MaxTransferSize", code.ErrInvalidMTU, func(t *Terms) any { return t.MaxTransferSize }},
	{"QoS", code.ErrInvalidQoS, func(t *Terms) any { return t.QoS }},
}

// Match returns an error if the terms of a request do not match those of this side.
func (s *Side) Match(r *Request) error {
	i := s.differs(&r.Info.Terms)
	if i < 0 {
		return nil
	}
	return s.owner.Failure(r.From, agreed[i].err, s.mismatch(i, fmt.Sprint(agreed[i].value(&r.Info.Terms))))
}

// differs compares the terms that must be equal. It returns the index in agreed of the first
// difference, or -1.
func (s *Side) differs(there *Terms) int {
	for i := range agreed {
		if agreed[i].value(there) != agreed[i].value(&s.Terms) {
			return i
		}
	}
	return -1
}

// mismatch describes the values of both sides for the terms with index i in agreed.
func (s *Side) mismatch(i int, there string) string {
	a := &agreed[i]
	return fmt.Sprintf("%s is %v here and %s there: give both VIs the same", a.name, a.value(&s.Terms), cmp.Or(there, "another"))
}
