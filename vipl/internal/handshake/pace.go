package handshake

// pace says how long an attempt waits for the answer to what it has sent first, before it
// sends that again. It follows from how long answers have taken on this NIC, as RFC 6298
// has it: their mean and four times their deviation from that. Only answers to what was sent
// once count (Karn's rule), because of others nobody knows what they answer.
//
// But where a receiver is not scheduled for a while, everything is sent more than once, and the
// pace would never be known. So after an answer to what was sent several times all
// attempts wait as long as that one did in the end, until an answer comes to what was
// sent once. A network that loses frames looks otherwise: there the last of them is
// answered as fast as ever.
type pace struct {
	mean      int64 // of the times that answers have taken, in ns; 0: there was none
	deviation int64
	held      int64 // what an attempt that had to repeat waited for in the end; 0: none, or that is over
}

// The limits of such a time. The lower one is for networks that lose a frame now and then. The
// upper one bounds what a slow receiver costs others, and is that of later repetitions, too.
const (
	firstRetry = 5_000_000   // ns
	maxRetry   = 100_000_000 // ns
)

// first returns how long an attempt waits before it repeats the first time.
func (p *pace) first() int64 {
	return min(max(p.mean+4*p.deviation, p.held, firstRetry), maxRetry)
}

// answered notes how long the answer to what was sent once has taken.
func (p *pace) answered(took int64) {
	took = min(max(took, 1), maxRetry)
	p.held = 0
	if p.mean == 0 {
		p.mean, p.deviation = took, took/2
		return
	}
	p.deviation += (max(took-p.mean, p.mean-took) - p.deviation) / 4
	p.mean += (took - p.mean) / 8
}

// repeated notes that an attempt that had sent several times was answered, took ns after the last
// time, when it would have sent again after interval. An answer that comes in the first part
// of the interval answers the last of them: the others were lost. While no answer time is known, the
// first part is a quarter.
func (p *pace) repeated(took, interval int64) {
	usual := 2 * p.mean
	if p.mean == 0 {
		usual = interval / 4
	}
	if took > usual {
		p.held = max(p.held, interval)
	}
}
