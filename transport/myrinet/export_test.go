package myrinet

import (
	"errors"
	"fmt"
)

// UnderWay returns Stats.UnderWay without an allocation.
func (f *Fabric) UnderWay() uint64 { return f.stats.UnderWay }

// SetBitErrors changes Options.BitErrors.
func (f *Fabric) SetBitErrors(p float64) { f.opts.BitErrors = p }

// AtRest returns an error that names a port which is in use.
func (f *Fabric) AtRest() error {
	for _, p := range f.ports {
		if p.busy != nil || p.current != nil || p.next != nil || p.sending {
			return fmt.Errorf("port %v is still in use", p)
		}
	}
	return nil
}

// FreedOnce returns an error if a worm is twice in the list of free ones.
func (f *Fabric) FreedOnce() error {
	seen := map[*worm]bool{}
	for _, w := range f.free {
		if seen[w] {
			return errors.New("a worm was freed twice")
		}
		seen[w] = true
	}
	return nil
}
