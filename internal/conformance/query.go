package conformance

import "github.com/bobnet-go/bobnet/vipl"

// attributes returns a VI's attributes.
func attributes(v *vipl.VI) vipl.Attributes { return v.Query().Attributes }

// queues checks which of a VI's queues are empty.
func (c *Case) queues(v *vipl.VI, sendEmpty, recvEmpty bool) {
	c.Helper()
	if q := v.Query(); q.SendEmpty != sendEmpty || q.RecvEmpty != recvEmpty {
		c.Fatalf("send queue empty: %v, want %v; receive queue empty: %v, want %v", q.SendEmpty, sendEmpty, q.RecvEmpty, recvEmpty)
	}
}
