package vmmc

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// slowDirectory answers when the test does.
type slowDirectory struct {
	directory.Directory
	asked chan slowQuestion
}

type slowQuestion struct {
	from   provider.Identity
	answer func(uid uint32, proven bool)
}

func (d slowDirectory) Prove(_ provider.Ticket, from provider.Identity, answer func(uid uint32, proven bool)) {
	d.asked <- slowQuestion{from, answer}
}

// judge is a provider that counts what is denied.
type judge struct {
	provider.Provider
	denied map[provider.Identity]int
}

func (j judge) Deny(r *provider.Request, _ provider.Reason) { j.denied[r.From]++ }

// TestProofsAreBounded: a node that asks for much has a few questions at the directory, which
// do not keep those of other nodes waiting; all are put in the end.
func TestProofsAreBounded(t *testing.T) {
	const n = 1000
	dir := slowDirectory{asked: make(chan slowQuestion, 2*n)}
	j := judge{denied: map[provider.Identity]int{}}
	p := &Process{dir: dir, via: j}
	e := &Export{policy: Policy{Users: []uint32{7}}}
	greedy := provider.Identity{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 1}}}
	modest := provider.Identity{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 2}}}
	p.mu.Lock()
	p.prove(&provider.Request{From: greedy, Gone: true}, e)
	for range n {
		p.prove(&provider.Request{From: greedy}, e)
	}
	p.prove(&provider.Request{From: modest}, e)
	p.unlock()
	next := func() slowQuestion {
		select {
		case q := <-dir.asked:
			return q
		case <-time.After(time.Minute):
			t.Fatal("no question is put")
			panic("unreachable")
		}
	}
	var early []slowQuestion // before the other node's
	q := next()
	for ; q.from != modest; q = next() {
		if early = append(early, q); len(early) > maxNodeProving {
			t.Fatalf("%d questions are open before that of the other node", len(early))
		}
	}
	q.answer(8, true)
	for i := range n {
		if i < len(early) {
			q = early[i]
		} else {
			q = next()
		}
		if more := len(dir.asked); more > maxNodeProving {
			t.Fatalf("%d more questions are open", more)
		}
		p.mu.Lock()
		if p.proofs.open > maxNodeProving {
			t.Errorf("%d questions are open", p.proofs.open)
		}
		p.mu.Unlock()
		q.answer(0, false)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.denied[greedy] != n || j.denied[modest] != 1 || p.proofs.open != 0 || p.proofs.waiting != 0 || len(p.proofs.nodes) != 0 {
		t.Errorf("denied %v, left %+v", j.denied, p.proofs)
	}
}
