package endpoint

import (
	"os"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
)

// Endpoint is a program's connection to a virtual network (ep_t): a table of translations, a table
// of handlers, a segment and a tag. It belongs to one bundle at a time, whose type determines which
// goroutines may use it.
type Endpoint struct {
	node         *Node
	bundle       *Bundle
	id           uint32
	tag          Tag
	segment      []byte
	grants       int // of the segment, see segment.go
	handlers     [NumHandlers]Handler
	returned     ReturnHandler
	translations []*translation
	clients      set[*client] // those of unmapped translations too
	servers      set[*server]
	senders      map[ethertype.MAC]int // of servers, at each station
	published    []string
	silent       bool // its messages do not post the bundle's semaphore
	freed        bool
}

// NewEndpoint creates an endpoint in the bundle (AM_AllocateEndpoint). It accepts no messages until
// SetTag.
func (b *Bundle) NewEndpoint() (*Endpoint, error) {
	n := b.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := b.gone(); err != nil {
		return nil, err
	}
	n.lastID++
	ep := &Endpoint{node: n, bundle: b, id: n.lastID, translations: make([]*translation, defaultTranslations)}
	b.endpoints.add(ep)
	n.endpoints[ep.id] = ep
	n.way.Opened(ep.id)
	n.way.Tagged(ep.id, TagNone)
	return ep, nil
}

// Name returns the endpoint's name, by which others map it.
func (ep *Endpoint) Name() Name {
	return Name{Addr: ep.node.way.Addr(), ID: ep.id, Incarnation: ep.node.incarnation}
}

// Bundle returns the endpoint's bundle.
func (ep *Endpoint) Bundle() *Bundle {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	return ep.bundle
}

// Free frees the endpoint (AM_FreeEndpoint). It forgets its own unanswered messages. Unanswered
// messages to it return to their senders. It fails with ErrInUse while a handler of the endpoint's
// bundle is running. Freeing twice does nothing.
func (ep *Endpoint) Free() error {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	if ep.freed {
		return nil
	}
	if ep.bundle.running > 0 {
		return provider.OpError("free endpoint", ErrInUse, "a handler of its bundle is running")
	}
	ep.free()
	return nil
}

func (ep *Endpoint) free() {
	ep.freed = true
	for _, c := range ep.clients.all() {
		c.abandonCalls()
		c.destroy()
	}
	for _, s := range ep.servers.all() {
		s.destroy()
	}
	ep.bundle.endpoints.remove(ep)
	delete(ep.node.endpoints, ep.id)
	ep.withdraw()
	ep.node.way.Ended(ep.id)
	ep.bundle.changed()
}

// Move moves the endpoint to another bundle of the same node (AM_MoveEndpoint), with the messages
// that wait for their handlers. Its name and connections remain. It fails with ErrInUse while a
// handler of its bundle is running, and with ErrResource if to belongs to another node.
func (ep *Endpoint) Move(to *Bundle) error {
	n := ep.node
	n.mu.Lock()
	defer n.mu.Unlock()
	from := ep.bundle
	switch {
	case ep.freed:
		return ep.gone()
	case to.freed:
		return to.gone()
	case to.node != n:
		return provider.OpError("move endpoint", ErrResource, "the bundle belongs to another node")
	case from.running > 0:
		return provider.OpError("move endpoint", ErrInUse, "a handler of its bundle is running")
	case from == to:
		return nil
	}
	from.endpoints.remove(ep)
	to.endpoints.add(ep)
	ep.bundle = to
	move(&from.replies, &to.replies, func(c *client) bool { return c.ep == ep })
	move(&from.requests, &to.requests, func(s *server) bool { return s.ep == ep })
	if to.pending() {
		to.event(to.posts())
	}
	from.changed() // a request may wait there for this endpoint's credits
	return nil
}

// move moves the elements for which wanted returns true from one queue to another.
func move[T any](from, to *fifo.Queue[T], wanted func(v T) bool) {
	from.Keep(func(v *T) bool {
		if wanted(*v) {
			to.Push(*v)
			return false
		}
		return true
	})
}

// EventMask returns the endpoint's mask.
func (ep *Endpoint) EventMask() EventMask {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	if ep.silent {
		return NoEvents
	}
	return NotEmpty
}

// SetEventMask determines whether messages for this endpoint post the semaphore of its bundle. The
// virtual-network paper has such a mask for each endpoint. The initial mask is NotEmpty. Messages
// post the semaphore only if the bundle's own mask is NotEmpty, too. With NotEmpty a message that
// already waits is an event. Poll handles the messages of all endpoints of the bundle, whatever
// their masks.
func (ep *Endpoint) SetEventMask(mask EventMask) error {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	switch {
	case ep.freed:
		return ep.gone()
	case mask > NotEmpty:
		return provider.OpError("set event mask", ErrArgument, "unknown event mask %d", mask)
	}
	was := ep.silent
	ep.silent = mask == NoEvents
	if was && !ep.silent && ep.bundle.posts() {
		ep.bundle.event(true)
	}
	return nil
}

// Tag returns the endpoint's tag (AM_GetTag).
func (ep *Endpoint) Tag() Tag {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	return ep.tag
}

// SetTag sets the endpoint's tag (AM_SetTag). It applies to every message that has not been handled
// yet, including replies, which carry the tag that the endpoint had when it sent the request.
func (ep *Endpoint) SetTag(t Tag) {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	ep.tag = t
	ep.node.way.Tagged(ep.id, t)
}

// SetHandler sets handler i, 1 to 255 (AM_SetHandler). Nil makes it unused. SetReturnHandler sets
// handler 0.
func (ep *Endpoint) SetHandler(i uint8, h Handler) error {
	if i == 0 {
		return provider.OpError("set handler", ErrArgument, "handler 0 is for returned messages: use SetReturnHandler")
	}
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	ep.handlers[i] = h
	return nil
}

// AddHandler sets the first unused handler and returns its number (AM_SetHandlerAny). It returns
// ErrResource if none is unused.
func (ep *Endpoint) AddHandler(h Handler) (uint8, error) {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	for i := 1; i < NumHandlers; i++ {
		if ep.handlers[i] == nil {
			ep.handlers[i] = h
			return uint8(i), nil
		}
	}
	return 0, provider.OpError("add handler", ErrResource, "all %d are in use", NumHandlers-1)
}

// SetReturnHandler sets the handler of returned messages: handler 0 of AM-II. Nil restores
// the default: a returned request is logged, and ends the process with Config.Exit. A
// returned reply is counted (Stats.LostReplies) and logged, because its client can cause the
// return, by ending or by another tag; see Config.ExitForReplies.
func (ep *Endpoint) SetReturnHandler(h ReturnHandler) {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	ep.returned = h
}

// giveBack returns a message to the endpoint that sent it.
func (ep *Endpoint) giveBack(r *Returned) {
	n := ep.node
	n.stats.Returned[r.Reason]++
	h := ep.returned
	switch {
	case h != nil:
	case r.Op.reply() && !n.cfg.ExitForReplies:
		ep.replyLost(r)
		return
	default:
		h = ep.abort
	}
	n.runReturn(ep.bundle, h, r)
}

// replyLost handles a returned reply if there is no ReturnHandler. It logs at most one line a
// second, however many clients end.
func (ep *Endpoint) replyLost(r *Returned) {
	n := ep.node
	n.stats.LostReplies++
	if now := n.way.Now(); n.lostLogged == 0 || now-n.lostLogged >= int64(time.Second) {
		n.lostLogged = now
		n.cfg.Logger.Warn("endpoint: reply returned: its client has ended or refused it",
			append(ep.described(r), "so far", n.stats.LostReplies)...)
	}
}

// described returns the attributes of a log line about a returned message. It includes Err only if
// there is one.
func (ep *Endpoint) described(r *Returned) []any {
	list := []any{"endpoint", ep.Name(), "reason", r.Reason, "operation", r.Op, "to", r.To, "handler", r.Handler}
	if r.Err != nil {
		list = append(list, "err", r.Err)
	}
	return list
}

// abort is the default ReturnHandler of requests, and of replies with Config.ExitForReplies.
func (ep *Endpoint) abort(r *Returned) {
	ep.node.cfg.Logger.Error("endpoint: message returned and no ReturnHandler is set: the process ends (set one by SetReturnHandler, or use Call)", append(ep.described(r), "dest", r.Dest)...)
	ep.node.flushLog()
	exit := ep.node.cfg.Exit
	if exit == nil {
		exit = os.Exit
	}
	exit(1)
}
