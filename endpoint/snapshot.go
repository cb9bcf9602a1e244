package endpoint

import (
	"cmp"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// snapshotMax is the most entries in each list of a Snapshot but the bundles.
const snapshotMax = 256

// Snapshot is the state of a node at one moment. Its counts are complete. It lists at most 256
// connections of each endpoint, those with the lowest indices.
type Snapshot struct {
	Addr        ethertype.Addr // where the node accepts connections
	Incarnation uint32
	Closed      bool
	Leading     bool // a goroutine waits for the network
	Following   int  // goroutines that wait for the leading one
	Stats       Stats
	Bundles     []BundleSnapshot // bundles in the order of their endpoints
}

// BundleSnapshot is the state of a bundle at one moment.
type BundleSnapshot struct {
	Type      string // "sequential" or "parallel"
	Events    string // the mask: "none" or "not empty"
	Posted    bool   // the semaphore is posted
	Running   int    // running handlers
	Requests  int    // connections with requests that wait for their handlers
	Replies   int    // connections with replies that wait for their handlers
	Endpoints []EndpointSnapshot
}

// EndpointSnapshot is the state of an endpoint at one moment.
type EndpointSnapshot struct {
	ID           uint32
	Accepts      string // "nothing", "all", or "its tag"; the tag itself is secret
	Published    []string
	Segment      int                   // bytes
	Grants       int                   // bulk messages and long gets that use the segment and block SetSegment
	Mapped       int                   // translations in use
	Table        int                   // size of the table
	Translations []TranslationSnapshot // mapped ones, and unmapped ones with requests in flight
	Senders      int                   // connections to this endpoint
	Asked        []SenderSnapshot      // those with pending work
}

// TranslationSnapshot is the state of the messages to one destination.
type TranslationSnapshot struct {
	Index    int // -1 if unmapped
	To       Name
	Err      string // why the connection broke, if requests still have to return
	UnderWay int    // requests neither answered nor returned
	Credits  int    // credits for further requests of all sizes
	Answers  int    // replies that wait for the next poll
	// Of the oldest request in flight:
	Oldest string        // its operation; empty if there is none
	Age    time.Duration // since this program first waited or polled after sending it
	Waits  string        // what it waits for
}

// SenderSnapshot is a connection to an endpoint with pending work.
type SenderSnapshot struct {
	From     Name // name of the sender, as it claims
	Waiting  int  // messages that wait for their handlers
	Incoming int  // bulk requests whose data are in flight
	Outgoing int  // bulk replies that wait for the sender to name their place
	Deferred int  // requests with a deferred reply (Token.Defer) that is not sent yet
}

// Snapshot returns the current state of the node. Any goroutine may call it at any time.
func (n *Node) Snapshot() Snapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Snapshot{Addr: n.way.Addr(), Incarnation: n.incarnation, Closed: n.closed, Leading: n.leader != nil, Following: len(n.followers.list), Stats: n.stats}
	if n.closed {
		return s
	}
	n.stamp()
	now := n.way.Now()
	for _, b := range n.bundles.all() {
		s.Bundles = append(s.Bundles, b.snapshot(now))
	}
	slices.SortFunc(s.Bundles, func(a, b BundleSnapshot) int { return cmp.Compare(a.first(), b.first()) })
	return s
}

// first is the number of the bundle's oldest endpoint; those without are last.
func (b *BundleSnapshot) first() uint64 {
	if len(b.Endpoints) == 0 {
		return 1 << 32
	}
	return uint64(b.Endpoints[0].ID)
}

func (b *Bundle) snapshot(now int64) BundleSnapshot {
	s := BundleSnapshot{Type: "sequential", Events: "none", Posted: b.posted, Running: b.running, Requests: b.requests.Len(), Replies: b.replies.Len()}
	if b.kind == Parallel {
		s.Type = "parallel"
	}
	if b.mask == NotEmpty {
		s.Events = "not empty"
	}
	for _, ep := range b.endpoints.all() {
		s.Endpoints = append(s.Endpoints, ep.snapshot(now))
	}
	slices.SortFunc(s.Endpoints, func(x, y EndpointSnapshot) int { return cmp.Compare(x.ID, y.ID) })
	return s
}

func (ep *Endpoint) snapshot(now int64) EndpointSnapshot {
	s := EndpointSnapshot{ID: ep.id, Accepts: "its tag", Published: slices.Clone(ep.published), Segment: len(ep.segment), Grants: ep.grants,
		Table: len(ep.translations), Senders: ep.servers.len()}
	switch ep.tag {
	case TagNone:
		s.Accepts = "nothing"
	case TagAll:
		s.Accepts = "all"
	}
	for i, t := range ep.translations {
		if t == nil {
			continue
		}
		s.Mapped++
		if t.client == nil {
			s.Translations = append(s.Translations, TranslationSnapshot{Index: i, To: t.to, Credits: ep.node.cfg.Credits.total()})
		}
	}
	for _, c := range ep.clients.all() {
		s.Translations = append(s.Translations, c.snapshot(now))
	}
	slices.SortFunc(s.Translations, func(x, y TranslationSnapshot) int {
		return cmp.Or(cmp.Compare(uint(x.Index), uint(y.Index)), cmp.Compare(y.Age, x.Age)) // -1 is last
	})
	s.Translations = s.Translations[:min(len(s.Translations), snapshotMax)]
	for _, server := range ep.servers.all() {
		if a := server.snapshot(); a != (SenderSnapshot{From: a.From}) {
			s.Asked = append(s.Asked, a)
		}
	}
	slices.SortFunc(s.Asked, func(x, y SenderSnapshot) int { return cmp.Compare(x.From.String(), y.From.String()) })
	s.Asked = s.Asked[:min(len(s.Asked), snapshotMax)]
	return s
}

func (c *client) snapshot(now int64) TranslationSnapshot {
	s := TranslationSnapshot{Index: c.index, To: c.to, UnderWay: c.used, Credits: len(c.slots) - c.used, Answers: c.queue.Len()}
	if c.tr == nil {
		s.Index = -1
	}
	if c.reason != 0 {
		s.Err = c.reason.String()
	}
	if c.lost != nil {
		s.Err += ": " + c.lost.Error()
	}
	for i := range c.slots {
		if slot := &c.slots[i]; slot.state != slotFree && (s.Oldest == "" || time.Duration(now-slot.sent) > s.Age) {
			s.Oldest, s.Age, s.Waits = slot.op.String(), time.Duration(now-slot.sent), c.waits(i)
		}
	}
	return s
}

// waits describes what a request waits for.
func (c *client) waits(i int) string {
	s := &c.slots[i]
	switch {
	case c.handled && c.current == i:
		return "for its handler here, which is running"
	case c.reason != 0:
		return "to come back at the next poll"
	case c.queue.Head != nil:
		return "for this program to poll"
	case s.granting():
		return "for the data of its reply"
	case s.state == slotLost:
		return "to come back at the next poll"
	case s.state == slotSkipping:
		return "for the server to hear that it came back"
	case s.state == slotRefusing:
		return "for the end of a refused reply"
	case s.data != nil && s.cleared:
		return "for its data to be written"
	case s.data != nil:
		return "for the place of its data"
	}
	return "for an answer"
}

func (s *server) snapshot() SenderSnapshot {
	a := SenderSnapshot{From: s.from, Waiting: s.queue.Len()}
	for i := range s.slots {
		switch s.slots[i].state {
		case serverGranted:
			a.Incoming++
		case serverAnnounced:
			a.Outgoing++
		case serverDeferred:
			a.Deferred++
		}
	}
	return a
}

// fresh holds the requests that were sent since the node last read the clock. Reading it for each
// request would be too slow.
type fresh struct {
	slots [pollEvery]*slot
	n     int
}

// sent records that a request is sent.
func (n *Node) sent(s *slot) {
	n.fresh.slots[n.fresh.n] = s
	if n.fresh.n++; n.fresh.n == len(n.fresh.slots) {
		n.stamp()
	}
}

// stamp sets the time of all of them.
func (n *Node) stamp() {
	if n.fresh.n == 0 {
		return
	}
	now := n.way.Now()
	n.pacing.polled = now // the caller polls or waits, or the next poll may be a little late
	for i := range n.fresh.slots[:n.fresh.n] {
		n.fresh.slots[i].sent = now
		n.fresh.slots[i] = nil
	}
	n.fresh.n = 0
}
