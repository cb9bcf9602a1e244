package guard

// Answer is a kind of answer to frames of strangers.
type Answer uint8

// The kinds.
const (
	Reset  Answer = iota // or the repetition of a Disconnect
	Reject               // of a request
	Query                // an answer to one
	Echo                 // the reply to one
	kinds
)

// answerEvery is the time in ns after which a further answer of the kind may go. An
// echo is as long as its answer, and some send one as soon as the last has come back.
var answerEvery = [kinds]int64{100_000, 100_000, 250_000, 10_000}

// Budget bounds the rate of each kind of answer to frames of anybody: whoever forges the
// sender has a NIC answer a third station. The bounds are far above what honest use
// needs, and who is not answered asks again. No answer is more than three times as long
// as what it answers.
//
// It is a token bucket of each kind: next says when the answers that have gone would have
// gone at that rate.
type Budget struct {
	AtOnce  int64  // answers of a kind that may go at once
	Refused uint64 // answers that were not given
	next    [kinds]int64
}

// Allow reports whether an answer of a kind may go at a time in ns, and takes it from the budget. It
// counts the answers that it refuses.
func (b *Budget) Allow(kind Answer, now int64) bool {
	next, every := &b.next[kind], answerEvery[kind]
	if *next-now > (b.AtOnce-1)*every {
		b.Refused++
		return false
	}
	*next = max(*next, now) + every
	return true
}
