package nodeagent

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/google/nftables"
)

// TestGuardRestored: who may send is known again after rules were flushed, whatever the guard did in between:
// asked for more, or found the table gone while it made chains. There are more blocks than one netlink attribute
// takes.
func TestGuardRestored(t *testing.T) {
	p := vethtest.New(t, 1500)
	err := p.In(0, func() error {
		g, err := newGuard(1)
		if err != nil {
			return err
		}
		blocks := make([]block, 3000)
		for i := range blocks {
			blocks[i] = block{index: 1 + i/64, typ: ethertype.Default, n: i % 64}
			g.elements[blocks[i]] = element{mark: markBase | 2}
		}
		restored := func(after string) {
			t.Helper()
			if made, err := g.restore(); err != nil || !made {
				t.Fatalf("after %s: made again: %v, %v", after, made, err)
			}
		}
		flush := func() {
			t.Helper()
			var conn nftables.Conn
			conn.FlushRuleset()
			if err := conn.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		flush()
		if err := g.allow([]block{{index: 1, typ: 0x88b6}}, element{mark: markBase | 3}); err == nil {
			t.Error("a block was given without a table")
		}
		restored("a flush and a request")
		flush()
		if err := g.hook(); err == nil {
			t.Error("interfaces were guarded without a table")
		}
		restored("a flush before the chains were made")
		if err := g.hook(); err != nil {
			return err
		}
		if made, err := g.restore(); made || err != nil {
			t.Errorf("nothing is missing: made again: %v, %v", made, err)
		}
		if err := g.load(); err != nil || len(g.elements) != len(blocks) {
			t.Errorf("%d blocks, want %d: %v", len(g.elements), len(blocks), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
