package mplite

// Credits. Every message fills one receive buffer that its receiver has
// posted, and a message without one would end the connection, so a sender
// spends a credit for each and the receiver returns it, on the back of any
// message, when the buffer is posted again.
//
// There are two pools of credits. Data messages (eager, ready) may stay in their buffer
// until a receive matches, so their credits may stay away for long: that is
// the push-back on a flood of unexpected messages. Control messages are
// consumed on arrival and have controlCredits of their own, so that they flow
// even when no data may. A message that only returns credits is control too.
// The last control credit is for such a message alone, and only for one that
// returns at least half of the peer's control credits: both sides can then
// never be out of them at the same time.
//
// Data messages may want answers, which are control messages. While many of those
// wait because the peer returns no control credits, it gets no data credits either.
const (
	controlCredits = 8
	controlDue     = controlCredits / 2
	maxWrites      = 8 // RDMA writes under way to one peer
)

// pump sends what had to wait and can go now.
func (p *peer) pump() {
	for p.pending.Len() > 0 && p.control > 1 && p.Room() && p.state != peerDead {
		if p.pending.At(0).kind == kindInvalid && p.writes == maxWrites {
			break
		}
		p.control--
		c := p.pending.Pop()
		if c.kind == kindInvalid {
			p.write(c.req)
			continue
		}
		p.sendControl(c)
	}
	for last := len(p.withheld) - 1; last >= 0 && !p.congested(); last-- {
		rx := p.withheld[last]
		p.withheld = p.withheld[:last]
		p.repost(rx)
	}
	for p.queue.head != nil && p.credits > 0 && p.Room() && p.state == peerLive {
		r := p.queue.head.of
		p.queue.remove(&r.place)
		p.launch(r)
	}
	p.returnCredits()
}

// returnCredits sends a credit message if enough is owed, or anything to a
// hungry peer.
func (p *peer) returnCredits() {
	forced := p.owedControl >= controlDue
	if p.owed < p.due && !forced && (!p.hungry || p.owed == 0) {
		return
	}
	if p.control < 1 || p.control == 1 && !forced || !p.Room() || p.state >= peerDead {
		return
	}
	p.control--
	p.w.stats.CreditMessages++
	p.post(&header{kind: kindCredit}, nil)
}

// congested reports whether so many control messages wait for p that it gets no
// data credits until some have gone.
func (p *peer) congested() bool { return p.pending.Len() >= p.w.cfg.Credits }

// withhold keeps a free receive buffer until p is not congested.
func (p *peer) withhold(rx *rxBuf) {
	if p.full() {
		p.fail(errOverspent)
		return
	}
	p.withheld = append(p.withheld, rx)
}

// full reports whether as many receive buffers are withheld or hold unexpected
// messages as p has ever had data credits for. Who sends one more has broken the
// rules, and is found here while receives are posted still: when the last is
// gone, nothing is left that would tell of the end of the connection.
func (p *peer) full() bool { return p.unexpected+len(p.withheld) >= p.w.cfg.Credits }

// repost gives a receive buffer back and owes the peer a data credit.
func (p *peer) repost(rx *rxBuf) {
	if p.state >= peerDead {
		return
	}
	if p.congested() {
		p.withhold(rx)
		return
	}
	if err := p.Repost(&rx.Buffer); err != nil {
		p.refuses(err)
		return
	}
	p.owed++
}

// repostControl does so for a control message, and sends what its credits allow.
func (p *peer) repostControl(rx *rxBuf) {
	if p.state >= peerDead {
		p.pump() // this rank's goodbye may wait for the credits that have come
		return
	}
	if err := p.Repost(&rx.Buffer); err != nil {
		p.refuses(err)
		return
	}
	p.owedControl++
	p.pump()
}
