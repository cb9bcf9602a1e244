package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/vmmc"
)

// Numbers of the exports: the board, by process 0, and each writer's copy.
const (
	boardID = 1
	copyID  = 2
)

// lineSize is the size of a line in bytes: short, so that a send copies it.
const lineSize = 64

// board is a program's part of the blackboard. The board has a place for each line of each writer.
// After these it has a word for each writer, which the writer sets when it has seen all lines.
// Nothing is written twice, so a notified program may read without a lock.
type board struct {
	p              *vmmc.Process
	writers, lines int
	copies         []*vmmc.Import // at process 0
	count          []int          // lines written by each writer
	total          uint32         // lines that this program has seen
	err            error          // of the handler
}

// place returns the offset on the board of line i of a writer, counted from 1.
func (b *board) place(writer, i int) int { return ((writer-1)*b.lines + i) * lineSize }

// seenAll returns the offset of a writer's word.
func (b *board) seenAll(writer int) int { return b.place(b.writers+1, 0) + writer*vmmc.WordSize }

// keep is the part of process 0: it exports the board, and forwards every line.
func (b *board) keep(ctx context.Context) error {
	b.count = make([]int, b.writers+1)
	for writer := range uint32(b.writers) {
		i, err := b.p.Import(ctx, vmmc.Name{Process: writer + 1, ID: copyID}) // waits until it is exported
		if err != nil {
			return err
		}
		b.copies = append(b.copies, i)
	}
	buf, err := b.p.AllocMem(b.seenAll(b.writers + 1))
	if err != nil {
		return err
	}
	e, err := b.p.Export(buf, boardID, vmmc.Everybody, func(n vmmc.Notification) {
		writer := int(n.From.Process)
		at := b.place(writer, b.count[writer])
		b.count[writer]++
		b.err = errors.Join(b.err, b.passOn(ctx, buf[at:at+lineSize]))
	})
	if err != nil {
		return err
	}
	for writer := 1; writer <= b.writers; writer++ { // handlers run meanwhile
		if _, err := b.p.WaitWord(ctx, vmmc.Word(buf, b.seenAll(writer)), 0); err != nil {
			return err
		}
	}
	return errors.Join(b.err, e.Unexport(ctx))
}

// passOn appends a line to every copy. Handlers may send.
func (b *board) passOn(ctx context.Context, line []byte) error {
	at := vmmc.ProxyAddr(b.total * lineSize)
	b.total++
	for _, c := range b.copies {
		if err := b.p.SendMsgWithNotify(ctx, line, c.Addr()+at); err != nil {
			return err
		}
	}
	return nil
}

// write is the part of a writer: it writes its lines, and reads the lines of all writers from its
// copy. It returns their checksum.
func (b *board) write(ctx context.Context, writer int) (sum uint32, err error) {
	mine, err := b.p.AllocMem(b.place(b.writers+1, 0))
	if err != nil {
		return 0, err
	}
	if _, err := b.p.Export(mine, copyID, vmmc.Everybody, func(vmmc.Notification) {
		at := b.total * lineSize
		sum = crc32.Update(sum, crc32.IEEETable, mine[at:at+lineSize])
		atomic.AddUint32(&b.total, 1)
	}); err != nil {
		return 0, err
	}
	board, err := b.p.Import(ctx, vmmc.Name{Process: 0, ID: boardID})
	if err != nil {
		return 0, err
	}
	line := make([]byte, lineSize)
	for i := range b.lines {
		clear(line)
		copy(line, fmt.Sprintf("line %d of writer %d", i, writer))
		if err := b.p.SendMsgWithNotify(ctx, line, board.Addr()+vmmc.ProxyAddr(b.place(writer, i))); err != nil {
			return 0, err
		}
	}
	for all, seen := uint32(b.writers*b.lines), uint32(0); seen < all; {
		if seen, err = b.p.WaitWord(ctx, &b.total, seen); err != nil {
			return 0, err
		}
	}
	if err := b.p.SendMsg(ctx, []byte{1, 1, 1, 1}, board.Addr()+vmmc.ProxyAddr(b.seenAll(writer))); err != nil {
		return 0, err
	}
	return sum, board.Unimport(ctx) // returns when the word has arrived
}
