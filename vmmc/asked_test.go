package vmmc

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// TestWithdrawn: requests that wait for an export stay in order when others are withdrawn, of which
// there are never more than of those that stay, and few are looked at for each.
func TestWithdrawn(t *testing.T) {
	p := &Process{}
	u := (*up)(p)
	const n = maxAsked
	all := make([]*provider.Request, n)
	for i := range all {
		all[i] = &provider.Request{ID: uint32(i)}
		u.Asked(all[i])
	}
	left := n
	for i, r := range all {
		if i%16 == 5 {
			continue
		}
		r.Gone = true
		u.Withdrawn(r)
		if left--; len(p.asked) > 2*left+1 || len(p.asked)-p.withdrawn != left {
			t.Fatalf("%d requests are kept, %d of them as withdrawn, when %d are left", len(p.asked), p.withdrawn, left)
		}
	}
	p.askAgain()
	if len(p.asked) != n/16 || p.withdrawn != 0 {
		t.Fatalf("%d requests wait, %d withdrawn, want %d", len(p.asked), p.withdrawn, n/16)
	}
	for i, r := range p.asked {
		if r.ID != uint32(16*i+5) {
			t.Fatalf("request %d is in place %d", r.ID, i)
		}
	}
}

// ender is a provider: to tell its first importer of a redirection ends the connection with it.
type ender struct {
	provider.Provider
	p     *Process
	ended *provider.Grant
}

var errWaits = errors.New("it waits")

func (x *ender) Redirect(g *provider.Grant, _ []byte) error {
	if x.ended == nil {
		x.ended = g
		(*up)(x.p).Released(g)
	}
	return nil
}

func (x *ender) Turn() { // the other importer answers
	for g := range x.ended.Export.(*Export).moving {
		if g != x.ended {
			(*up)(x.p).Redirected(g, 0, 0, 0)
		}
	}
}
func (x *ender) Moved(*provider.Grant)                             {}
func (x *ender) Ring()                                             {}
func (x *ender) Reaches([]byte) error                              { return nil }
func (x *ender) Seen() uint32                                      { return 0 }
func (x *ender) Wait(context.Context, time.Duration, uint32) error { return errWaits }

// TestRedirectEnds: Redirect does not wait for an importer whose connection ends while it is told.
func TestRedirectEnds(t *testing.T) {
	x := &ender{}
	x.p = &Process{via: x}
	e := &Export{p: x.p, buf: make([]byte, 8), grants: map[*provider.Grant]struct{}{}}
	e.to = e.buf
	for range 2 {
		e.grants[&provider.Grant{Export: e}] = struct{}{}
	}
	if _, err := e.Redirect(t.Context(), make([]byte, 8)); err != nil || len(e.grants) != 1 {
		t.Errorf("%v; %d importers are left", err, len(e.grants))
	}
}
