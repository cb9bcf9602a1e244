package guard

// Answer is a kind of answer to frames of unverified senders.
type Answer uint8

// The kinds.
const (
	Reset  Answer = iota // or a repeated Disconnect
	Reject               // of a request
	Query                // the answer to a query
	Echo                 // the reply to an echo
	kinds
)

// answerEvery is the minimum average interval in ns between answers of each kind. Echoes have a
// short one because their answer is not longer, and some programs send the next echo as soon as the
// last has returned.
var answerEvery = [kinds]int64{100_000, 100_000, 250_000, 10_000}

// Budget limits the rate of each kind of answer to unverified frames. A sender that forges its
// address makes a NIC answer a third station. The limits are far above the needs of honest senders,
// which repeat unanswered frames. No answer is more than three times as long as its query.
//
// Budget is a token bucket for each kind: next is the time at which the answers so far would have
// been sent at the permitted rate.
type Budget struct {
	AtOnce  int64  // burst size of each kind
	Refused uint64 // answers that exceeded the budget
	next    [kinds]int64
}

// Allow reports whether an answer of a kind may be sent at a time in ns, and charges the budget for
// it. It counts refused answers.
func (b *Budget) Allow(kind Answer, now int64) bool {
	next, every := &b.next[kind], answerEvery[kind]
	if *next-now > (b.AtOnce-1)*every {
		b.Refused++
		return false
	}
	*next = max(*next, now) + every
	return true
}
