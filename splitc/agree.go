package splitc

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/vipl"
)

// A rank that shares its membership with other packages has told the others nothing of its
// layer when it joined. It looks for them where its layer does, and would not find those
// that have chosen another one. So, before it opens its layer, it advertises a name that has the
// layer in it, and looks for the names of all others.

// saidBy returns the name by which a rank says something to those that start with it.
func (w *World) saidBy(rank int, what string) string {
	return fmt.Sprintf("splitc/start/%016x/%d/%d/%s", w.member.Identity().Nonce, w.generation, rank, what)
}

// known is what a rank says that has learned the layers of all others.
const known = "known"

// agree returns nil if all ranks have the layer of this one, or ErrUnequal if one has not. The
// caller withdraws what it has said when all ranks have opened their layers.
func (w *World) agree(ctx context.Context) (withdraw func(), err error) {
	own := w.saidBy(w.me, w.cfg.Layer)
	withdraw = func() { w.nic.Withdraw(own) }
	if err := w.nic.Advertise(own, w.nic.Addr()); err != nil {
		return withdraw, fmt.Errorf("splitc: start: %w", err)
	}
	w.watch.Begin()
	chosen := make([]string, w.procs)
	for i := 1; i < w.procs; i++ {
		rank := (w.me + i) % w.procs
		var late error
		chosen[rank], late = w.layerOf(ctx, rank)
		switch {
		case late != nil && err == nil:
			return withdraw, fmt.Errorf("splitc: start: rank %d does not say which layer it has: %w", rank, late)
		case late != nil:
			return withdraw, err
		case chosen[rank] != w.cfg.Layer && err == nil:
			err = w.otherLayer(rank, chosen[rank])
		}
	}
	if err != nil {
		w.awaitKnown(ctx, chosen)
	}
	return withdraw, err
}

// layerOf returns the layer that a rank has chosen. It asks for this rank's own more often than
// for the others, since that is what it is nearly always.
func (w *World) layerOf(ctx context.Context, rank int) (string, error) {
	for {
		for _, other := range Layers() {
			for _, l := range [2]string{w.cfg.Layer, other} {
				if said, err := w.says(rank, l); said || err != nil {
					return l, err
				}
				if err := w.watch.Check(ctx); err != nil {
					return "", err
				}
			}
		}
	}
}

// says reports whether a rank answers within this slice that it says something.
func (w *World) says(rank int, what string) (bool, error) {
	_, err := w.nic.LookupAt(w.watch.Slice(), w.member.Addr(rank), w.saidBy(rank, what))
	if errors.Is(err, vipl.ErrNameService) { // nobody answers
		return false, nil
	}
	return err == nil, err
}

// silence is for how many slices a rank answers nothing that has withdrawn what it has said.
const silence = 5

// awaitKnown waits, when ranks have chosen different layers, until all others know that: they
// have said so, or have ended their start, for which they do not wait for this one. Until then
// this rank's layer can be asked for.
func (w *World) awaitKnown(ctx context.Context, chosen []string) {
	own := w.saidBy(w.me, known)
	if w.nic.Advertise(own, w.nic.Addr()) != nil {
		return
	}
	defer w.nic.Withdraw(own)
	for i := 1; i < w.procs; i++ {
		rank := (w.me + i) % w.procs
		for silent := 0; silent < silence; {
			knows, err := w.says(rank, known)
			if err != nil || w.watch.Check(ctx) != nil {
				return
			}
			if knows {
				break
			}
			silent++
			if starts, _ := w.says(rank, chosen[rank]); starts {
				silent = 0
			}
		}
	}
}
