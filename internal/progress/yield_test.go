package progress

import (
	"context"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// scripted is a link in real time on which one frame comes for each mailbox of a list, and
// then, when the leader sleeps, one for the leader's own. It notes what the leader does.
type scripted struct {
	transport.Link
	mailboxes []byte
	now       int64
	did       []string
}

func (l *scripted) Info() transport.Info { return transport.Info{} }
func (l *scripted) Ready() bool          { return false }
func (l *scripted) Wake()                {}

func (l *scripted) Now() int64 {
	l.now++
	return l.now
}

func (l *scripted) Recv(views [][]byte) (int, error) {
	if len(l.mailboxes) == 0 {
		return 0, nil
	}
	views[0] = make([]byte, ethertype.HeaderSize+1)
	views[0][ethertype.HeaderSize] = l.mailboxes[0]
	l.mailboxes = l.mailboxes[1:]
	return 1, nil
}

func (l *scripted) Wait(int64) error {
	l.did = append(l.did, "sleeps")
	l.mailboxes = append(l.mailboxes, 0)
	return nil
}

// TestLeaderLetsFollowersRun: a leader that has woken followers yields to them, once, before
// it sleeps; one that has woken nobody sleeps at once.
func TestLeaderLetsFollowersRun(t *testing.T) {
	for _, tc := range []struct {
		mailboxes []byte
		want      []string
	}{
		{[]byte{1, 2, 1}, []string{"yields", "sleeps"}},
		{[]byte{3}, []string{"sleeps"}}, // nobody waits for it
		{nil, []string{"sleeps"}},
	} {
		l := &scripted{mailboxes: tc.mailboxes}
		c := newCounter(l, &Config{Spin: -1, NoService: true})
		c.e.yield = func() { l.did = append(l.did, "yields") }
		for i := 1; i <= 2; i++ {
			p := c.e.newPlace()
			c.boxes[i].gate.blocked = p
			c.e.lead.followers = append(c.e.lead.followers, p)
		}
		if err := c.await(context.Background(), 0, 1); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(l.did, tc.want) {
			t.Errorf("frames for %v: the leader %v, want %v", tc.mailboxes, l.did, tc.want)
		}
	}
}
