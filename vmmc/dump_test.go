package vmmc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestDump: what a process exports, who has imported it and what was refused is in the text
// of its snapshot.
func TestDump(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	const size = 5000
	exporter := func(p *vmmc.Process) error {
		buf := make([]byte, size)
		e, err := p.Export(buf, 7, vmmc.Everybody, func(vmmc.Notification) {})
		if err == nil {
			err = e.Advertise("board")
		}
		if err == nil {
			err = p.WaitNotification(bg)
		}
		return errors.Join(err, says(p, "vmmc process 1 at ", "  open\n", "notifications that came 1, handled 1", "7       5000 B  1          board\n"))
	}
	importer := func(p *vmmc.Process) error {
		i, err := p.ImportWord(bg, "board")
		if err != nil {
			return err
		}
		for _, addr := range []vmmc.ProxyAddr{i.Addr() + size - 1, i.Addr() - 1, 0} {
			if err := p.SendMsg(bg, make([]byte, 4), addr); !errors.Is(err, vmmc.ErrProxy) {
				return fmt.Errorf("a send to %v: %v, want ErrProxy", addr, err)
			}
		}
		if s := p.Snapshot().Stats; s.Refused != 3 || s.PastEnd != 1 {
			return fmt.Errorf("refused %d, of these %d past the end, want 3 and 1", s.Refused, s.PastEnd)
		}
		if err := p.SendMsgWithNotify(bg, make([]byte, 4), i.Addr()); err != nil {
			return err
		}
		return says(p, "  1 imports, 0 notifications queued", "writes 1, bytes 4, copied writes 1", "refused sends 3", "\n  1     ")
	}
	w.process(1, vmmc.Config{}, exporter)
	w.process(2, vmmc.Config{}, importer)
	check(t, w.run())
}

// says returns an error unless the dump of p has all the words.
func says(p *vmmc.Process, words ...string) error {
	var b strings.Builder
	p.Snapshot().WriteTo(&b)
	for _, word := range words {
		if !strings.Contains(b.String(), word) {
			return fmt.Errorf("no %q in\n%s", word, b.String())
		}
	}
	return nil
}
