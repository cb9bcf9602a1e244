package providertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// streamSize is the size of a write of caseStream in bytes.
const streamSize = 20000

// caseStream writes until a write fails. It checks that the region is lost with the error want
// (nil: any error), that each write has ended once, and that the next write is refused.
func caseStream(want error) func(n, other *Node) error {
	return func(n, other *Node) error {
		r, err := n.imports(other, 0)
		if err != nil {
			return err
		}
		for k := 0; err == nil; k++ {
			err = n.write(r, 0, pattern(streamSize, k))
		}
		if err := n.until("the region's end", func() bool { return r.Err != nil && r.Busy == 0 }); err != nil {
			return err
		}
		if want != nil && (!errors.Is(r.Err, want) || !errors.Is(err, want)) {
			return fmt.Errorf("a write has ended by %w, the region by %w, want %w", err, r.Err, want)
		}
		if err := n.post(provider.Write{Region: r, Data: [][]byte{{1}}, Size: 1, Copy: true}); err == nil {
			return errors.New("a write to what was lost is taken")
		}
		return nil
	}
}

// streaming waits until data of an importer arrives.
func (n *Node) streaming() (*provider.Grant, error) {
	buf := n.memory(streamSize + 1000)
	n.under(func() { n.allow(buf) })
	seen := 0
	return n.grantWhen(func() bool { // the importer has its grant
		n.p.Poll()
		for _, p := range n.p.Peers() {
			seen = max(seen, p.Grants)
		}
		return seen > 0
	})
}

func (n *Node) grantWhen(ready func() bool) (g *provider.Grant, err error) {
	err = n.serve(func() (is bool) {
		n.under(func() { is = ready() })
		return is
	})
	for range 5 { // let some of the data arrive
		if err == nil {
			n.p.Poll()
			n.under(n.turn)
			err = n.pause(step)
		}
	}
	n.under(func() { g = n.grant() })
	return g, err
}

// caseRevoke: after the release of a grant, nothing arrives in its memory any more.
func caseRevoke(atOnce bool) func(n, other *Node) error {
	return func(n, _ *Node) error {
		g, err := n.streaming()
		if err != nil {
			return err
		}
		n.under(func() { n.p.Revoke(g, atOnce) })
		if err := n.until("the release", func() bool { return n.grants[g] }); err != nil {
			return err
		}
		before := bytes.Clone(g.Mem)
		for range 50 {
			n.p.Poll()
			n.under(n.turn)
			if err := n.pause(step); err != nil {
				return err
			}
		}
		return same("memory after its release", g.Mem, before)
	}
}

// caseMove: after a Redirect, writes arrive in the new memory, and the provider reports what has
// arrived in the old memory.
func caseMove(n, _ *Node) error {
	first, second := n.memory(8192), n.memory(8192)
	n.under(func() { n.allow(first) })
	if err := n.until("the first write", func() bool { return atomic.LoadUint32(word(first, 4000)) != 0 }); err != nil {
		return err
	}
	var err error
	n.still.Store(true)
	n.under(func() { err = n.p.Redirect(n.grant(), second) })
	for k := 0; k < 20 && err == nil; k++ { // meanwhile the importer learns of the redirection and continues
		n.p.Poll()
		err = n.pause(step)
	}
	n.still.Store(false)
	n.under(func() {})
	if err == nil {
		err = n.until("the redirection", func() bool { return len(n.moved) == 1 })
	}
	for k := 0; k < 5 && err == nil; k++ { // other importers may not have answered yet
		n.p.Poll()
		if err = n.pause(step); err == nil && atomic.LoadUint32(word(second, 4000)) != 0 {
			err = errors.New("a write has not waited until all was copied")
		}
	}
	var m []redirected
	n.under(func() {
		m = n.moved
		n.p.Moved(n.grant())
	})
	if err == nil && (m[0].count == 0 || m[0].lo > 4000 || m[0].hi < 4001) {
		err = fmt.Errorf("%+v was told of a write of 4000", m[0])
	}
	if err != nil {
		return err
	}
	kept := bytes.Clone(first)
	if err := n.until("a write to the new memory", func() bool { return atomic.LoadUint32(word(second, 4000)) != 0 }); err != nil {
		return err
	}
	return same("the old memory", first, kept)
}

func caseFollow(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err == nil {
		err = n.write(r, 4000, []byte{1, 1, 1, 1})
	}
	for err == nil {
		moved := false
		other.under(func() { moved = len(other.moved) == 1 })
		if err = n.write(r, 4000, []byte{1, 1, 1, 1}); moved {
			return err
		}
		if err == nil {
			err = n.pause(step)
		}
	}
	return err
}

// caseDie kills the exporter while an importer writes. If the stage does not support Kill, the
// exporter closes.
func caseDie(n, _ *Node) error {
	if _, err := n.streaming(); err != nil {
		return err
	}
	if n.stage.Kill(n.number) {
		return errKilled
	}
	n.under(n.p.Close)
	return nil
}

// caseSurvive: when an importer has died, its grants are released.
func caseSurvive(n, _ *Node) error {
	g, err := n.streaming()
	if err != nil {
		return err
	}
	return n.until("the importer's end", func() bool { return n.grants[g] })
}

func caseVanish(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err == nil {
		err = n.write(r, 0, pattern(streamSize, 1))
	}
	if err != nil {
		return err
	}
	if err := n.stage.Sleep(50 * time.Millisecond); err != nil {
		return err
	}
	if n.stage.Kill(n.number) {
		return errKilled
	}
	n.under(n.p.Close)
	return nil
}

// caseNotDead: a report that an earlier process of the address has died ends nothing. A report that
// the present process has died ends all of its connections and grants.
func caseNotDead(n, other *Node) error {
	g, err := n.streaming()
	if err != nil {
		return err
	}
	id := other.p.Self()
	released := false
	n.under(func() {
		n.p.Dead(id.Addr, id.Incarnation+1)
		released = n.grants[g]
	})
	if released {
		return errors.New("the death of another process has ended a connection")
	}
	n.under(func() {
		n.p.Dead(id.Addr, id.Incarnation)
		released = n.grants[g]
	})
	if !released {
		return errors.New("a grant to a dead process is not released")
	}
	return nil
}

// caseEnd: Close releases everything immediately.
func caseEnd(n, _ *Node) error {
	g, err := n.streaming()
	if err != nil {
		return err
	}
	released := false
	n.under(func() {
		n.p.Close()
		released = n.grants[g]
	})
	if !released {
		return errors.New("a grant is left after Close")
	}
	before := bytes.Clone(g.Mem)
	if err := n.stage.Sleep(10 * time.Millisecond); err != nil {
		return err
	}
	return same("memory after Close", g.Mem, before)
}

// held is the number of notifications that caseBusy sends, which is more than there is room for.
const held = Sends

// caseHold handles no notification until its importer allows it.
func caseHold(n, _ *Node) error {
	buf := n.memory(4096)
	n.under(func() { n.allow(buf) })
	if err := n.serve(func() (told bool) {
		n.under(func() { told = n.seen > 0 })
		return told
	}); err != nil {
		return err
	}
	for handled := range held {
		if err := n.until("a notification", func() bool { return len(n.noted) > handled }); err != nil {
			return err
		}
		n.under(func() { n.p.Handled(n.noted[handled]) })
	}
	return nil
}

// caseBusy: a provider is busy until all writes are in memory and all notifications have been sent,
// including those that wait for room. So nothing is lost if it closes when it is no longer busy.
func caseBusy(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err != nil {
		return err
	}
	for k := uint32(1); k <= held; k++ {
		b := binary.NativeEndian.AppendUint32(nil, k)
		if err := n.post(provider.Write{Region: r, Data: [][]byte{b}, Size: 4, Copy: true, Notify: true, Token: k}); err != nil {
			return err
		}
	}
	if err := n.ends("the last write", uint32(held)); err != nil {
		return err
	}
	if err := n.pause(10 * step); err != nil {
		return err
	}
	busy, told := false, 0
	n.under(func() {
		n.turn()
		busy = n.p.Busy()
	})
	other.under(func() {
		other.turn()
		told = len(other.noted)
		other.seen = 1
	})
	if !busy {
		return fmt.Errorf("it is not busy, and of %d notifications %d have come", held, told)
	}
	if err := n.until("the end of all that was posted", func() bool { return !n.p.Busy() }); err != nil {
		return err
	}
	n.under(n.p.Close)
	return nil
}
