package vmmc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestExportRules: numbers and memory are in one export only, policies are asked, words
// are names.
func TestExportRules(t *testing.T) {
	w := newWorld(sim.Options{})
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		buf := make([]byte, 100)
		e, err := p.Export(buf[10:20], 1, vmmc.Everybody, nil)
		if err != nil {
			return err
		}
		if _, err := p.Export(buf[30:40], 1, vmmc.Everybody, nil); !errors.Is(err, vmmc.ErrExists) {
			return fmt.Errorf("the same number: %w", err)
		}
		if _, err := p.Export(buf[19:40], 2, vmmc.Everybody, nil); !errors.Is(err, vmmc.ErrOverlap) {
			return fmt.Errorf("the same memory: %w", err)
		}
		if _, err := p.Export(buf[20:40], 2, vmmc.Policy{Users: []uint32{0}}, nil); err != nil {
			return err
		}
		if _, err := p.Export(nil, 3, vmmc.Everybody, nil); err != nil {
			return err
		}
		if err := e.Advertise("board"); err != nil {
			return err
		}
		return w.serve(p, func() bool { return len(e.Importers()) == 1 })
	})
	w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
		if _, err := p.Import(bg, vmmc.Name{Process: 1, ID: 2}); !errors.Is(err, vmmc.ErrDenied) {
			return fmt.Errorf("an import that the policy forbids: %w", err)
		}
		if i, err := p.Import(bg, vmmc.Name{Node: w.stations[1].MAC(), Process: 1, ID: 3}); err != nil || i.Size() != 0 {
			return fmt.Errorf("an import of nothing: %w", err)
		}
		i, err := p.ImportWord(bg, "board")
		if err != nil || i.Size() != 10 {
			return fmt.Errorf("an import by a word: %w", err)
		}
		ctx, cancel := p.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		if _, err := p.Import(ctx, vmmc.Name{Process: 1, ID: 99}); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("an import of what never comes: %w", err)
		}
		return nil
	})
	check(t, w.run())
}

// TestUnexport: once it is taken back nothing lands, sends fail with a typed error, and an
// import of what is exported again is another one. The old handle reaches no new buffer,
// however often this happens on one connection.
func TestUnexport(t *testing.T) {
	for _, rounds := range []int{3, 5000} {
		if rounds > 1000 && !need.Full() {
			continue
		}
		w := newWorld(sim.Options{Limit: time.Hour})
		over := false
		w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
			buf := make([]byte, 64)
			for k := range rounds {
				e, err := p.Export(buf, 1, vmmc.Everybody, nil)
				if err != nil {
					return err
				}
				if _, err := p.WaitWord(bg, vmmc.Word(buf, 0), uint32(k)); err != nil {
					return err
				}
				if err := e.Unexport(bg); err != nil || len(e.Importers()) != 0 {
					return fmt.Errorf("unexport: %w", err)
				}
			}
			over = true
			return nil
		})
		w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
			for k := range uint32(rounds) {
				i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
				if err != nil {
					return fmt.Errorf("import %d: %w", k, err)
				}
				v := k + 1
				if err := p.SendMsg(bg, []byte{byte(v), byte(v >> 8), 0, 0}, i.Addr()); err != nil {
					return err
				}
				old := i.Addr()
				for i.Done() == nil {
					p.Poll()
					w.Sleep(10 * time.Microsecond)
				}
				if err := i.Done(); !errors.Is(err, vmmc.ErrUnexported) {
					return fmt.Errorf("the import has ended by %w", err)
				}
				if err := p.SendMsg(bg, []byte{9, 9, 9, 9}, old); !errors.Is(err, vmmc.ErrUnexported) {
					return fmt.Errorf("a send to what is not exported any more: %w", err)
				}
			}
			return nil
		})
		check(t, w.run())
		if !over {
			t.Error("the exporter has not finished")
		}
	}
}

// TestNotifications: a flood of notifications to a process that has them blocked waits, and
// each is told once afterwards. A handler sends, cannot undo its own block, may unexport,
// panic, and end its goroutine's turn.
func TestNotifications(t *testing.T) {
	const flood = 200
	w := newWorld(sim.Options{Loss: 0.1, Seed: 3})
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		seen, answered := 0, 0
		var fails error
		var back *vmmc.Import
		p.BlockNotifications()
		e, err := p.Export(make([]byte, 64), 1, vmmc.Everybody, func(n vmmc.Notification) {
			seen++
			if n.From.Process != 2 {
				fails = fmt.Errorf("from %v", n.From)
			}
			if err := p.UnblockNotifications(); !errors.Is(err, vmmc.ErrNotInHandler) {
				fails = err
			}
			if back != nil {
				fails = errors.Join(fails, p.SendMsg(bg, []byte{1}, back.Addr()))
				answered++
			}
			if seen == flood {
				n.Export.Unexport(bg)
			}
			if seen%7 == 0 {
				panic("a handler panics")
			}
		})
		if err != nil {
			return err
		}
		if back, err = p.Import(bg, vmmc.Name{Process: 2, ID: 1}); err != nil {
			return err
		}
		for p.Snapshot().Queued < 32 {
			p.Poll()
			w.Sleep(time.Millisecond)
		}
		w.Sleep(100 * time.Millisecond)
		p.Poll()
		if queued := p.Snapshot().Queued; seen != 0 || queued != 32 {
			return fmt.Errorf("%d handled while blocked, %d queued", seen, queued)
		}
		if err := p.UnblockNotifications(); err != nil {
			return err
		}
		for seen < flood {
			if err := p.WaitNotification(bg); err != nil {
				return err
			}
		}
		if s := p.Snapshot().Stats; fails != nil || answered != flood || s.Panics != flood/7 || len(e.Importers()) != 0 {
			return fmt.Errorf("%w; %d answered, %d panics", fails, answered, s.Panics)
		}
		return nil
	})
	w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
		if _, err := p.Export(make([]byte, 64), 1, vmmc.Everybody, nil); err != nil {
			return err
		}
		i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		for k := 0; err == nil && k < flood; k++ {
			err = p.SendMsgWithNotify(bg, []byte{byte(k)}[:k%2], i.Addr())
		}
		return err
	})
	check(t, w.run())
}

// TestRedirect: what was sent before is copied and counted, what is sent after lands where
// the receiver says, without a copy.
func TestRedirect(t *testing.T) {
	w := newWorld(sim.Options{Seed: 2, Loss: 0.1})
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		buf, to := make([]byte, 64), make([]byte, 64)
		e, err := p.Export(buf, 1, vmmc.Everybody, nil)
		if err != nil {
			return err
		}
		if _, err := p.WaitWord(bg, vmmc.Word(buf, 0), 0); err != nil {
			return err
		}
		if late, err := e.Redirect(bg, to); late != 1 || err != nil || to[0] != 1 {
			return fmt.Errorf("redirect: %d late, %w; %d", late, err, to[0])
		}
		if got, err := p.WaitWord(bg, vmmc.Word(to, 0), 1); got != 2 || err != nil || buf[0] != 1 {
			return fmt.Errorf("the word is %d, that of the export %d: %w", got, buf[0], err)
		}
		if late, err := e.Redirect(bg, nil); late != 0 || err != nil {
			return fmt.Errorf("back: %d late, %w", late, err)
		}
		if got, err := p.WaitWord(bg, vmmc.Word(buf, 0), 1); got != 3 || err != nil {
			return fmt.Errorf("the export's word is %d: %w", got, err)
		}
		return nil
	})
	w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
		i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		for k := byte(1); err == nil && k <= 3; k++ {
			if err = p.SendMsg(bg, []byte{k, 0, 0, 0}, i.Addr()); err == nil {
				end := w.Now() + int64(time.Second)
				err = w.serve(p, func() bool { return w.Now() > end })
			}
		}
		return err
	})
	check(t, w.run())
}

// TestRedirectOfMany: what one importer has sent too late, in two places, is copied with what
// lies between them, and puts nothing old over what others have sent there meanwhile, of whom
// one has imported meanwhile, too.
func TestRedirectOfMany(t *testing.T) {
	const slot = 1000 // of importer 2 the first and third; the second of importer 3, and, half of it, of 4
	w := newWorld(sim.Options{Seed: 2})
	var told bool
	sent := map[uint32]bool{}
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		buf, to := make([]byte, 3*slot), make([]byte, 3*slot)
		e, err := p.Export(buf, 1, vmmc.Everybody, nil)
		if err != nil {
			return err
		}
		if err := w.serve(p, func() bool { return sent[2] && sent[3] }); err != nil {
			return err
		}
		told = true
		if late, err := e.Redirect(bg, to); late != 2 || err != nil {
			return fmt.Errorf("%d late, %w", late, err)
		}
		end := w.Now() + int64(20*time.Millisecond)
		if err := w.serve(p, func() bool { return to[slot] == 3 && to[slot*3/2] == 4 || w.Now() > end }); err != nil {
			return err
		}
		if to[0] != 2 || to[slot] != 3 || to[slot*3/2] != 4 || to[2*slot] != 2 {
			return fmt.Errorf("the slots hold %d, %d, %d and %d", to[0], to[slot], to[slot*3/2], to[2*slot])
		}
		return nil
	})
	importer := func(number uint32, before func(p *vmmc.Process, to *vmmc.Import) error, then func(p *vmmc.Process, to *vmmc.Import) error) {
		w.process(number, vmmc.Config{}, func(p *vmmc.Process) error {
			to, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
			if err == nil {
				err = before(p, to)
			}
			if sent[number] = true; err == nil {
				err = w.serve(p, func() bool { return told })
			}
			if err == nil {
				err = then(p, to)
			}
			return err
		})
	}
	importer(2, func(p *vmmc.Process, to *vmmc.Import) error {
		return errors.Join(p.SendMsg(bg, []byte{2}, to.Addr()), p.SendMsg(bg, []byte{2}, to.Addr()+2*slot))
	}, func(p *vmmc.Process, to *vmmc.Import) error { return w.Sleep(5 * time.Millisecond) }) // it hears of it late
	importer(3, func(*vmmc.Process, *vmmc.Import) error { return nil }, func(p *vmmc.Process, to *vmmc.Import) error {
		end := w.Now() + int64(time.Millisecond)
		if err := w.serve(p, func() bool { return w.Now() > end }); err != nil { // it hears of it soon
			return err
		}
		return p.SendMsg(bg, []byte{3}, to.Addr()+slot)
	})
	w.process(4, vmmc.Config{}, func(p *vmmc.Process) error {
		if err := w.serve(p, func() bool { return told }); err != nil {
			return err
		}
		to, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		if err == nil {
			err = p.SendMsg(bg, []byte{4}, to.Addr()+slot*3/2)
		}
		return err
	})
	check(t, w.run())
}
