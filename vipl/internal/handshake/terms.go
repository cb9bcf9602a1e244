package handshake

import (
	"cmp"
	"fmt"

	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// agreed are the terms that must be equal on both sides, in the order of the codes from
// rejectReliability on.
var agreed = [...]struct {
	name  string
	err   error // when they are not
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

// differs compares what both sides must agree on. It returns which of agreed differs, -1 if
// none does.
func (s *Side) differs(there *Terms) int {
	for i := range agreed {
		if agreed[i].value(there) != agreed[i].value(&s.Terms) {
			return i
		}
	}
	return -1
}

// mismatch says what each side has of the terms with number i of agreed.
func (s *Side) mismatch(i int, there string) string {
	a := &agreed[i]
	return fmt.Sprintf("%s is %v here and %s there: give both VIs the same", a.name, a.value(&s.Terms), cmp.Or(there, "another"))
}
