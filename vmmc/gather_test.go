package vmmc_test

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestManyPieces: a message of more writes than may be under way at a time is sent whole,
// by a call that waits and by one that does not.
func TestManyPieces(t *testing.T) {
	const size, piece = 40_000, 40
	w := newWorld(sim.Options{Seed: 1})
	data := pattern(make([]byte, size), 1)
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		buf := make([]byte, 2*size)
		told := 0
		whole := func(vmmc.Notification) {
			if half := buf[told*size:][:size]; !bytes.Equal(half, data) {
				t.Errorf("message %d has come in part only", told)
			}
			told++
		}
		if _, err := p.Export(buf, 1, vmmc.Everybody, whole); err != nil {
			return err
		}
		return p.Await(bg, func() bool { return told == 2 })
	})
	w.process(2, vmmc.Config{MaxSends: 2}, func(p *vmmc.Process) error {
		i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		if err != nil {
			return err
		}
		var pieces [][]byte
		for at := 0; at < size; at += piece {
			pieces = append(pieces, data[at:at+piece])
		}
		if err := p.SendGather(bg, pieces, i.Addr(), true); err != nil {
			return err
		}
		s := &vmmc.Send{Gather: pieces, Dst: i.Addr() + size, Notify: true}
		if err := p.Post(s); err != nil {
			return err
		}
		return p.WaitSend(bg, s)
	})
	check(t, w.run())
}
