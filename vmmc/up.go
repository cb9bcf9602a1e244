package vmmc

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// up is the process as its provider sees it. The provider calls all methods with the lock
// held.
type up Process

var _ provider.Up = (*up)(nil)

// maxAsked bounds the requests that wait for an export.
const maxAsked = 1 << 16

// Asked implements provider.Up.
func (u *up) Asked(r *provider.Request) {
	p := (*Process)(u)
	e := p.exports[r.ID]
	if r.Word != "" {
		e = p.words[r.Word]
	}
	if p.closed {
		e = nil // the end of this process is the answer: the importer waits for the next process of the name
	}
	switch {
	case e == nil && len(p.asked)-p.withdrawn >= maxAsked:
		p.via.Deny(r, provider.ReasonResource)
	case e == nil:
		p.asked = append(p.asked, r)
	case e.policy.asksForUser(peerOf(r.From)):
		p.prove(r, e)
	default:
		p.decide(r, e, 0, false)
	}
}

// decide answers a request.
func (p *Process) decide(r *provider.Request, e *Export, uid uint32, proven bool) {
	switch {
	case r.Gone:
	case e.gone:
		p.via.Deny(r, provider.ReasonRevoked)
	case !e.policy.allows(peerOf(r.From), uid, proven):
		p.stats.Denied++
		why := provider.ReasonPolicy
		if len(e.policy.Users) > 0 && !proven {
			why = provider.ReasonUnproven
		}
		p.via.Deny(r, why)
	case e.moving != nil: // the copy of a Redirect must not overwrite data that this importer writes
		e.asked = append(e.asked, r)
	default:
		p.allow(r, e)
	}
}

// allow grants an import.
func (p *Process) allow(r *provider.Request, e *Export) {
	p.dir.Met(r.From.Addr.MAC)
	if g, err := p.via.Allow(r, e.to, e); err == nil {
		e.grants[g] = struct{}{}
		p.stats.Granted++
	}
}

// Withdrawn implements provider.Up. It removes withdrawn requests together, when they are
// half of the waiting requests. If it removed them one by one, a peer that sends many
// requests and then ends would hold the lock for a long time.
func (u *up) Withdrawn(*provider.Request) {
	if u.withdrawn++; 2*u.withdrawn < len(u.asked) {
		return
	}
	u.asked = slices.DeleteFunc(u.asked, func(r *provider.Request) bool { return r.Gone })
	u.withdrawn = 0
}

// Answered implements provider.Up.
func (u *up) Answered(a *provider.Ask) {
	p, i := (*Process)(u), a.Import.(*Import)
	p.spent(a.Ticket)
	switch {
	case i.err != nil: // given up
		if a.Region != nil {
			p.via.Release(a.Region)
		}
	case errors.Is(a.Err, provider.ErrPeer) && !errors.Is(a.Err, provider.ErrRefused) && !p.closed:
		i.lose()
	case a.Err != nil:
		i.fail(typed(a.Err))
	case a.Region == nil:
		i.fail(fmt.Errorf("%w: %s", denials[a.Why], i.what()))
	default:
		i.region = a.Region
		i.addr = p.proxies.allocate(a.Region.Size, i)
		p.stats.Imports++
	}
	p.via.Ring()
}

var denials = map[provider.Reason]error{
	0: ErrDenied, provider.ReasonPolicy: ErrDenied, provider.ReasonRevoked: ErrUnexported,
	provider.ReasonResource: fmt.Errorf("%w for want of room", ErrDenied), provider.ReasonUnknown: ErrDenied,
	provider.ReasonUnproven: fmt.Errorf("%w: its policy admits certain users, and the user of this process is not authenticated (run bobnet daemon on both nodes, before the processes)", ErrDenied),
}

// Lost implements provider.Up.
func (u *up) Lost(r *provider.Region) {
	p := (*Process)(u)
	if i := r.Ask.Import.(*Import); i.err == nil {
		i.fail(typed(r.Err))
	}
	p.via.Ring()
}

// Released implements provider.Up.
func (u *up) Released(g *provider.Grant) {
	p, e := (*Process)(u), g.Export.(*Export)
	delete(e.grants, g)
	delete(e.moving, g)
	p.via.Ring()
}

// Redirected implements provider.Up.
func (u *up) Redirected(g *provider.Grant, lo, hi uint64, count uint32) {
	p, e := (*Process)(u), g.Export.(*Export)
	if e.moving == nil {
		return
	}
	delete(e.moving, g)
	if from := g.Before; count > 0 && addressOf(from) == addressOf(e.buf) && addressOf(e.to) != addressOf(e.buf) && lo < hi && hi <= uint64(len(e.buf)) {
		copy(e.to[lo:hi], e.buf[lo:hi])
		e.late += int(count)
		p.stats.Late += uint64(count)
	}
	p.via.Ring()
}

// Done implements provider.Up.
func (u *up) Done(token any, err error) {
	s := token.(*Send)
	if s.left--; err != nil && s.err == nil {
		s.err = typed(err)
	}
	if s.left == 0 {
		s.finish()
		(*Process)(u).via.Ring()
	}
}

// Notified implements provider.Up.
func (u *up) Notified(g *provider.Grant) {
	p, e := (*Process)(u), g.Export.(*Export)
	p.stats.Notified++
	if e.handler == nil || e.gone || p.closed {
		p.via.Handled(g)
		return
	}
	p.notes.push(note{e, g})
	p.via.Ring()
}
