package vmmc

import (
	"testing"

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
