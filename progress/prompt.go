package progress

// Prompt judges whether a program posts soon when it has got what it waited for, by whether it
// has done so before. The zero Prompt has seen nothing yet. A machine that puts off what
// could go with the program's next post does so only for a program that is prompt.
type Prompt struct {
	score int
	got   int64 // when the program last got something, 0 if it has posted since
}

// PromptPost is how soon, in nanoseconds, a program posts that is prompt. The time that the
// frame takes the kernel is in it.
const PromptPost = 20_000

// A program is prompt while its score is promptFrom at least. A prompt post adds 1 to the score, up
// to PromptMost. A late one takes promptFrom off, so that once is not enough: the kernel
// may have run something else.
const (
	promptFrom = 4
	PromptMost = 2 * promptFrom
)

// Got notes that the program gets something at now.
func (p *Prompt) Got(now int64) { p.got = now }

// Take returns when the program last got something, if it has not posted since, else 0. It is
// for Posted, where the time of a post is known later.
func (p *Prompt) Take() (got int64) {
	got, p.got = p.got, 0
	return got
}

// Posted notes that the program has posted something by now, or has not, and when it got
// something before.
func (p *Prompt) Posted(now, got int64) {
	switch {
	case got == 0:
	case now-got < PromptPost:
		p.score = min(p.score+1, PromptMost)
	default:
		p.score = max(p.score-promptFrom, 0)
	}
}

// Is reports whether the program is prompt.
func (p *Prompt) Is() bool { return p.score >= promptFrom }
