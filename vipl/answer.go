package vipl

// A NIC answers frames of anybody: by a Reset those for connections that it does not
// have, by a Reject requests, and questions and echoes. Whoever forges the sender has
// it answer a third station. So there is a limit to the rate of each kind of answer,
// far above what honest use needs: who is not answered asks again. No answer is more
// than three times as long as what it answers.

// answer is a kind of answer to frames of strangers.
type answer uint8

const (
	answerReset answer = iota // or the repetition of a farewell
	answerReject
	answerQuery
	answerEcho
	answerEnd
)

// answersAtOnce is how many answers of a kind may go at once: each VI of another NIC may
// ask for one.
const answersAtOnce = MaxVIs

// answerEvery is the time in ns after which a further answer of the kind may go. An
// echo is as long as its answer, and some send one as soon as the last has come back.
var answerEvery = [answerEnd]int64{100_000, 100_000, 250_000, 10_000}

// answerBudget says for each kind when the answers that have gone would have gone at
// that rate: a token bucket.
type answerBudget [answerEnd]int64

// mayAnswer takes an answer of a kind from the budget. It reports false, and counts
// that, when there is none left.
func (n *NIC) mayAnswer(kind answer) bool {
	at, every := &n.answers[kind], answerEvery[kind]
	if *at-n.now > (answersAtOnce-1)*every {
		n.stats.Unanswered++
		return false
	}
	*at = max(*at, n.now) + every
	return true
}
