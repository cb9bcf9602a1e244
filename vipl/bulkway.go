package vipl

import "github.com/bobnet-go/bobnet/ethertype"

// This file has bulk frames come apart, or as all others.

// begin has the link receive bulk frames apart, and reports whether it does.
func (b *bulkRx) begin(n *NIC) bool {
	if b.used {
		return true
	}
	if err := b.link.StartBulk(); err != nil {
		n.linkError(err)
		b.forget(n)
		return false
	}
	b.allocate(n)
	b.used, b.late, b.idle = true, 1+n.info.Slots/len(n.views), 0
	return true
}

// end has the link receive all frames one way again, and takes in the bulk frames
// that came before, so that none that comes now overtakes them. It reports whether
// it could.
func (b *bulkRx) end(n *NIC, forGood bool) bool {
	if err := b.link.StopBulk(forGood); err != nil {
		n.linkError(err)
		return false
	}
	for n.pollBulk() > 0 {
	}
	b.used, b.vi = false, nil
	return true
}

// forget does without bulk frames from now on, and tells peers by every frame.
func (b *bulkRx) forget(n *NIC) {
	*b = bulkRx{from: b.from, hits: b.hits}
	for _, v := range n.vis {
		if v != nil {
			v.flags &^= ethertype.FlagTakesBulk
		}
	}
}

// tested reports whether the trial is to be told of a poll.
func (b *bulkRx) tested() bool { return b.trying && (b.stream > 0 || b.trial.begun()) }

// tryBulk tells the trial what the poll has taken in, and has bulk frames come the
// way that it says.
func (n *NIC) tryBulk() {
	b := &n.bulk
	t := &b.trial
	t.note(n.now, b.stream)
	b.stream = 0
	if t.apart {
		if !b.begin(n) {
			return
		}
	} else if (b.used || t.over) && (b.late > 0 || !b.end(n, t.over)) {
		return // the next poll tries it again
	}
	if !t.over {
		return
	}
	n.log.Info("bulk frames measured", "interface", n.info.Interface, "apart", t.apart, "ns/MiB", t.bulk, "ns/MiB by the ring", t.ring, "pairs", t.pairs)
	b.trying = false
	if !t.apart {
		b.forget(n)
	}
}

// way says how bulk frames come.
func (b *bulkRx) way() string {
	switch {
	case b.trying:
		return "measuring"
	case b.link != nil:
		return "on"
	}
	return "off"
}
