package conformance

import (
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
)

// TestShares wants links of all shares together to run each rule on each of its
// levels with each kind of wait, and each of them to run each rule once.
func TestShares(t *testing.T) {
	all := rules()
	for _, wait := range []Wait{Spin, Block} {
		met := map[string]reliability.Level{}
		for share := 1; share <= 3; share++ {
			l := Link{Share: share}
			count := 0
			for _, level := range []reliability.Level{anyLevel, unreliable, delivery, reception} {
				for _, r := range l.at(level, wait, all) {
					met[r.call+"/"+r.name] |= level
					count++
				}
			}
			if count != len(all) {
				t.Errorf("share %d, %v: %d rules run, want %d", share, wait, count, len(all))
			}
		}
		for _, r := range all {
			if got := met[r.call+"/"+r.name]; got != r.levels {
				t.Errorf("%v: %s/%s runs on %v, want %v", wait, r.call, r.name, got, r.levels)
			}
		}
	}
}
